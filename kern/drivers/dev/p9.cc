// #p9: a folder of the host, by 9P2000.L over virtio (QEMU: -virtfs
// local,path=DIR,mount_tag=…,security_model=none).
//
// Every channel has a fid, the server's name for a file, that walking, attaching or making gave it
// and that closing gives back. A request and its reply use one of the virtio channel's slots and
// that slot's two buffers; whoever makes a request holds a Request, which takes a slot and lets it
// go. Requests are not interrupted: the server is the emulator, which answers at once.
//
// Directories are read whole when they are read from the beginning, because the server's positions
// need all 64 bits; a position here is a place in what was read. That listing belongs to the
// channel and is guarded by a sleeping lock.
//
// The server checks permissions as the user who runs the emulator; besides, ours are checked as
// everywhere, for users but root. The device is registered only if the machine has one.

#include <algorithm>
#include <atomic>

#include "core/errstr.h"
#include "core/log.h"
#include "core/planted.h"
#include "drivers/dev/devices.h"
#include "drivers/dev/p9_message.h"
#include "drivers/virtio/virtio.h"
#include "kmalloc.h"
#include "lib/format.h"
#include "ns/device.h"
#include "ns/namespace.h"
#include "sched/task.h"

namespace {

constexpr uint16_t kDeviceId = 0x1009;
constexpr uint32_t kFeatureMountTag = 1;
constexpr uint8_t kVector = 0x60;
constexpr uint32_t kMessageSize = 64 * 1024;
constexpr uint32_t kPayload = kMessageSize - 4096;  // of one read or write, well below what fits
constexpr uint32_t kNoFid = UINT32_MAX, kRootFid = 0;
constexpr uint16_t kNoTag = UINT16_MAX;

// Linux's numbers, which the protocol uses.
constexpr uint32_t kLinuxAccess = 3, kLinuxAppend = 02000, kLinuxDirectory = 0200000;
constexpr uint64_t kGetattrBasic = 0x7ff;
constexpr uint32_t kSetattrMode = 1, kSetattrSize = 8;

Errno from_linux(uint32_t number) {
  switch (number) {
    case 36:
      return Errno::ENAMETOOLONG;
    case 38:
      return Errno::ENOSYS;
    case 39:
      return Errno::ENOTEMPTY;
    case 40:
      return Errno::ELOOP;
    case 95:
      return Errno::ENOTSUP;
    case 110:
      return Errno::ETIMEDOUT;
    default:
      break;
  }
  // Up to 34 the numbers are those of the first Unix, the same everywhere.
  constexpr int kSame[] = {
#define NUMBER(name, value, message) value,
      ABI_ERRNOS(NUMBER)
#undef NUMBER
  };
  for (const int known : kSame)
    if (known <= 34 && static_cast<uint32_t>(known) == number) return static_cast<Errno>(known);
  return Errno::EIO;
}

// What a guest may set of a file's mode: a program that it makes must not run with the rights of
// who runs the guest.
constexpr uint32_t kModeBits = 01777;

constinit VirtioChannel channel;
constinit char* buffers[VirtioChannel::kSlots][2] =
    {};  // request and reply of each slot; written at boot

// A request being made: write it with the writer, send it, read the reply.
class Request {
 public:
  explicit Request(P9 type)
      : slot_(channel.acquire()), type_(type), writer_(buffers[slot_][0], type, tag()) {}
  ~Request() { channel.release(slot_); }
  Request(const Request&) = delete;
  Request& operator=(const Request&) = delete;

  P9Writer& writer() { return writer_; }
  // The reply's contents, valid as long as the request. The server's error, or EIO if it did not
  // make sense.
  Result<P9Reader> send() {
    const size_t size = writer_.finish();
    const char* const reply = buffers[slot_][1];
    const size_t received =
        channel.transact(slot_, buffers[slot_][0], size, buffers[slot_][1], kMessageSize);
    P9Reader header(reply, std::min<size_t>(received, kP9Header));
    const uint32_t length = header.u32();
    const uint8_t type = header.u8();
    if (!header.ok() || length < kP9Header || length > received) return Errno::EIO;
    P9Reader contents(reply + kP9Header, length - kP9Header);
    if (type == static_cast<uint8_t>(P9::kRlerror)) return from_linux(contents.u32());
    if (type != static_cast<uint8_t>(type_) + 1) return Errno::EIO;
    return contents;
  }

 private:
  uint16_t tag() const { return type_ == P9::kTversion ? kNoTag : static_cast<uint16_t>(slot_); }

  const unsigned slot_;
  const P9 type_;
  P9Writer writer_;
};

struct Fid {
  explicit Fid(uint32_t fid) : number(fid) {}

  const uint32_t number;
  Text* listing =
      nullptr;  // of an open directory: Listed and the name, for each entry; under P9Device's lock
};
struct Listed {
  uint64_t path;
  uint8_t type;  // as in abi_dirent
  uint8_t name_length;
};

constinit ObjectCache<Fid> fid_cache;
constinit std::atomic<uint32_t> next_fid{kRootFid + 1};

void clunk(uint32_t fid) {
  Request request(P9::kTclunk);
  request.writer().u32(fid);
  static_cast<void>(request.send());  // the server forgets the fid whatever it answers
}

class P9Device final : public Device {
 public:
  constexpr P9Device() : Device("p9") {}
  // ENODEV if the machine has no such device.
  Result<void> init();

  Result<Ref<Chan>> attach(std::string_view spec) override;
  Result<Ref<Chan>> walk(Chan& chan, std::string_view name, const Credentials& who) override;
  Result<void> stat(Chan& chan, abi_stat& stat) override;
  Result<Ref<Chan>> open(Ref<Chan> chan, uint32_t flags, const Credentials& who) override;
  Result<Ref<Chan>> create(Chan& directory, std::string_view name, uint32_t flags, uint32_t mode,
                           const Credentials& who) override;
  Result<size_t> read(Chan& chan, char* buffer, size_t size, uint64_t offset) override;
  Result<size_t> write(Chan& chan, const char* buffer, size_t size, uint64_t offset) override;
  Result<void> entry(Chan& directory, uint64_t& position, abi_stat& entry, char* name) override;
  void close(Chan& chan) override;
  Result<void> clone_state(Chan& chan, Chan& copy) override;
  Result<void> remove(Chan& chan, const Credentials& who) override;
  Result<void> rename(Chan& chan, Chan& directory, std::string_view name,
                      const Credentials& who) override;
  Result<void> truncate(Chan& chan, uint64_t size, const Credentials& who) override;
  Result<void> chmod(Chan& chan, uint32_t mode, const Credentials& who) override;
  bool one_offset() const override { return true; }

 private:
  static Fid& fid_of(const Chan& chan) { return *static_cast<Fid*>(chan.state); }
  static uint32_t number_of(const Chan& chan) { return fid_of(chan).number; }
  Result<Ref<Chan>> channel_for(uint32_t fid, const P9Qid& qid);
  Result<Ref<Chan>> walk_from(uint32_t fid, std::string_view name);
  Result<void> open_fid(Chan& chan, uint32_t flags);
  Result<void> list(Fid& fid) REQUIRES(lock_);
  Result<void> set_attribute(Chan& chan, uint32_t what, uint32_t mode, uint64_t size);

  P9Qid root_{};
  Mutex lock_{LockRank::kDeviceMutex};  // listings of directories
};

constinit P9Device device;

Result<void> P9Device::init() {
  TRY(channel.start(kDeviceId, kFeatureMountTag, kVector, "p9"));
  fid_cache.init("p9_fid");
  for (auto& slot : buffers) {
    for (char*& buffer : slot) {
      buffer = static_cast<char*>(kmalloc(kMessageSize, KM_SLEEP));
      if (!buffer) return Errno::ENOMEM;
    }
  }
  {
    Request request(P9::kTversion);
    request.writer().u32(kMessageSize).string("9P2000.L");
    P9Reader reply = TRY(request.send());
    const uint32_t message_size = reply.u32();
    if (reply.string() != "9P2000.L" || message_size < kMessageSize) return Errno::ENOTSUP;
  }
  Request request(P9::kTattach);
  request.writer().u32(kRootFid).u32(kNoFid).string("root").string("").u32(0);
  P9Reader reply = TRY(request.send());
  root_ = reply.qid();
  return reply.ok() ? Result<void>() : Errno::EIO;
}

// A channel that owns `fid`, which is clunked if there is none to be had.
Result<Ref<Chan>> P9Device::channel_for(uint32_t fid, const P9Qid& qid) {
  Result<Ref<Chan>> chan =
      Chan::create(this, {.path = qid.path, .version = qid.version, .directory = qid.directory()});
  Result<Fid*> state = chan ? fid_cache.make(KM_SLEEP, fid) : Result<Fid*>(Errno::ENOMEM);
  if (!state) {
    clunk(fid);
    return Errno::ENOMEM;
  }
  (*chan)->state = *state;
  return chan;
}

// To the entry `name` of `fid`, or with "" to itself.
Result<Ref<Chan>> P9Device::walk_from(uint32_t fid, std::string_view name) {
  const uint32_t number = next_fid.fetch_add(1, std::memory_order_relaxed);
  P9Qid qid = root_;
  {
    Request request(P9::kTwalk);
    request.writer().u32(fid).u32(number);
    if (name.empty())
      request.writer().u16(0);
    else
      request.writer().u16(1).string(name);
    P9Reader reply = TRY(request.send());
    if (reply.u16() != (name.empty() ? 0 : 1)) return Errno::ENOENT;
    if (!name.empty()) qid = reply.qid();
    if (!reply.ok()) return Errno::EIO;
  }
  return channel_for(number, qid);
}

Result<Ref<Chan>> P9Device::attach(std::string_view spec) {
  if (!spec.empty()) return fail(Errno::ENXIO, "#p9 takes no argument after its name");
  return walk_from(kRootFid, "");
}

Result<Ref<Chan>> P9Device::walk(Chan& chan, std::string_view name, const Credentials&) {
  if (!chan.qid.directory) return Errno::ENOTDIR;
  return walk_from(number_of(chan), name);
}

Result<void> P9Device::stat(Chan& chan, abi_stat& stat) {
  Request request(P9::kTgetattr);
  request.writer().u32(number_of(chan)).u64(kGetattrBasic);
  P9Reader reply = TRY(request.send());
  reply.u64();  // which of it is valid
  const P9Qid qid = reply.qid();
  fill_stat(stat, qid.path, reply.u32());
  stat.uid = reply.u32();
  stat.gid = reply.u32();
  stat.nlink = static_cast<uint32_t>(reply.u64());
  reply.u64();  // device number
  stat.size = reply.u64();
  reply.u64();  // block size
  reply.u64();  // blocks
  for (abi_timespec* time : {&stat.atime, &stat.mtime, &stat.ctime}) {
    time->sec = static_cast<int64_t>(reply.u64());
    time->nsec = static_cast<int64_t>(reply.u64());
  }
  return reply.ok() ? Result<void>() : Errno::EIO;
}

Result<void> P9Device::open_fid(Chan& chan, uint32_t flags) {
  uint32_t linux_flags = flags & kLinuxAccess;
  if (flags & ABI_O_APPEND) linux_flags |= kLinuxAppend;
  if (chan.qid.directory) linux_flags |= kLinuxDirectory;
  Request request(P9::kTlopen);
  request.writer().u32(number_of(chan)).u32(linux_flags);
  TRY(request.send());
  chan.is_open = true;
  chan.open_flags = flags;
  return {};
}

Result<Ref<Chan>> P9Device::open(Ref<Chan> chan, uint32_t flags, const Credentials& who) {
  const uint32_t want = wanted_by_open(flags);
  if (chan->qid.directory && (want & 2)) return Errno::EISDIR;
  if (who.uid != 0) {
    abi_stat now;
    TRY(stat(*chan, now));
    if (!permitted(now.mode, now.uid, now.gid, who, want)) return Errno::EACCES;
  }
  TRY(open_fid(*chan, flags));
  return chan;
}

Result<Ref<Chan>> P9Device::create(Chan& directory, std::string_view name, uint32_t flags,
                                   uint32_t mode, const Credentials& who) {
  if ((mode & ABI_S_IFMT) == ABI_S_IFDIR) {
    {
      Request request(P9::kTmkdir);
      request.writer().u32(number_of(directory)).string(name).u32(mode & kModeBits).u32(who.gid);
      TRY(request.send());
    }
    Ref<Chan> made = TRY(walk_from(number_of(directory), name));
    TRY(open_fid(*made, ABI_O_RDONLY));
    return made;
  }
  // The fid of the directory becomes the file's: a copy is given up for it.
  Ref<Chan> made = TRY(walk_from(number_of(directory), ""));
  Request request(P9::kTlcreate);
  constexpr uint32_t kLinuxExclusive = 0200;
  const uint32_t linux_flags =
      (flags & kLinuxAccess) | kLinuxExclusive | (flags & ABI_O_APPEND ? kLinuxAppend : 0);
  request.writer()
      .u32(number_of(*made))
      .string(name)
      .u32(linux_flags)
      .u32(mode & kModeBits)
      .u32(who.gid);
  P9Reader reply = TRY(request.send());
  const P9Qid qid = reply.qid();
  made->qid = {.path = qid.path, .version = qid.version, .directory = false};
  made->is_open = true;
  made->open_flags = flags;
  return made;
}

Result<size_t> P9Device::read(Chan& chan, char* buffer, size_t size, uint64_t offset) {
  if (chan.qid.directory) return Errno::EISDIR;
  size_t done = 0;
  while (done < size) {
    Request request(P9::kTread);
    const auto wanted = static_cast<uint32_t>(std::min<size_t>(size - done, kPayload));
    request.writer().u32(number_of(chan)).u64(offset + done).u32(wanted);
    Result<P9Reader> reply = request.send();
    if (!reply) return done > 0 ? Result<size_t>(done) : reply.error();
    const std::string_view data = reply->bytes(reply->u32());
    if (!reply->ok() || data.size() > wanted) return Errno::EIO;
    memcpy(buffer + done, data.data(), data.size());
    done += data.size();
    if (data.size() < wanted) break;
  }
  return done;
}

Result<size_t> P9Device::write(Chan& chan, const char* buffer, size_t size, uint64_t offset) {
  if (chan.qid.directory) return Errno::EISDIR;
  if (chan.open_flags & ABI_O_APPEND) {
    abi_stat now;
    TRY(stat(chan, now));
    offset = now.size;
  }
  size_t done = 0;
  while (done < size) {
    Request request(P9::kTwrite);
    const auto piece = static_cast<uint32_t>(std::min<size_t>(size - done, kPayload));
    request.writer().u32(number_of(chan)).u64(offset + done).u32(piece).bytes(buffer + done, piece);
    Result<P9Reader> reply = request.send();
    const uint32_t written = reply ? reply->u32() : 0;
    const bool failed = !reply || !reply->ok() || written > piece;
    if (failed && done == 0) return reply ? Errno::EIO : reply.error();
    if (failed) break;
    done += written;
    if (written < piece) break;
  }
  if (chan.open_flags & ABI_O_APPEND) chan.offset = offset + done;
  return done;
}

// Reads the whole directory into the fid's listing.
Result<void> P9Device::list(Fid& fid) {
  Text* const text = TRY(Text::create());
  Text::destroy(std::exchange(fid.listing, text));
  for (uint64_t offset = 0;;) {
    Request request(P9::kTreaddir);
    request.writer().u32(fid.number).u64(offset).u32(kPayload);
    P9Reader reply = TRY(request.send());
    const std::string_view data = reply.bytes(reply.u32());
    if (!reply.ok()) return Errno::EIO;
    if (data.empty()) return text->failed() ? Result<void>(Errno::ENOMEM) : Result<void>();
    for (P9Reader at(data.data(), data.size()); !at.at_end();) {
      const P9Qid qid = at.qid();
      offset = at.u64();
      const uint8_t type = at.u8();
      const std::string_view name = at.string();
      if (!at.ok()) return Errno::EIO;
      if (name == "." || name == ".." || name.size() > kMaxName) continue;
      const Listed listed = {
          .path = qid.path, .type = type, .name_length = static_cast<uint8_t>(name.size())};
      text->append({reinterpret_cast<const char*>(&listed), sizeof listed});
      text->append(name);
    }
  }
}

Result<void> P9Device::entry(Chan& directory, uint64_t& position, abi_stat& entry, char* name) {
  MutexGuard guard(lock_);
  Fid& fid = fid_of(directory);
  if (position == 0 || !fid.listing) TRY(list(fid));
  Listed listed;
  if (fid.listing->read(reinterpret_cast<char*>(&listed), sizeof listed, position) != sizeof listed)
    return Errno::ENOENT;
  fill_stat(entry, listed.path, uint32_t{listed.type} << 12);
  name[fid.listing->read(name, listed.name_length, position + sizeof listed)] = '\0';
  position += sizeof listed + listed.name_length;
  return {};
}

void P9Device::close(Chan& chan) {
  if (!chan.state) return;
  Fid& fid = fid_of(chan);
  clunk(fid.number);
  Text::destroy(fid.listing);
  if (!planted(Planted::kHostFile)) fid_cache.destroy(&fid);
}

Result<void> P9Device::clone_state(Chan& chan, Chan& copy) {
  Ref<Chan> same = TRY(walk_from(number_of(chan), ""));
  std::swap(copy.state, same->state);
  return {};
}

Result<void> P9Device::remove(Chan& chan, const Credentials&) {
  // Removing gives the fid up whatever comes of it, so a copy is given.
  Ref<Chan> copy = TRY(walk_from(number_of(chan), ""));
  Request request(P9::kTremove);
  request.writer().u32(number_of(*copy));
  fid_cache.destroy(&fid_of(*copy));
  copy->state = nullptr;
  TRY(request.send());
  return {};
}

Result<void> P9Device::rename(Chan& chan, Chan& directory, std::string_view name,
                              const Credentials&) {
  Request request(P9::kTrename);
  request.writer().u32(number_of(chan)).u32(number_of(directory)).string(name);
  TRY(request.send());
  return {};
}

Result<void> P9Device::set_attribute(Chan& chan, uint32_t what, uint32_t mode, uint64_t size) {
  Request request(P9::kTsetattr);
  request.writer()
      .u32(number_of(chan))
      .u32(what)
      .u32(mode)
      .u32(0)
      .u32(0)
      .u64(size)
      .u64(0)
      .u64(0)
      .u64(0)
      .u64(0);
  TRY(request.send());
  return {};
}

Result<void> P9Device::truncate(Chan& chan, uint64_t size, const Credentials& who) {
  if (chan.qid.directory) return Errno::EISDIR;
  if (chan.is_open) {
    if (!(wanted_by_open(chan.open_flags) & 2)) return Errno::EACCES;
  } else if (who.uid != 0) {
    abi_stat now;
    TRY(stat(chan, now));
    if (!permitted(now.mode, now.uid, now.gid, who, 2)) return Errno::EACCES;
  }
  return set_attribute(chan, kSetattrSize, 0, size);
}

Result<void> P9Device::chmod(Chan& chan, uint32_t mode, const Credentials& who) {
  if (who.uid != 0) {
    abi_stat now;
    TRY(stat(chan, now));
    if (now.uid != who.uid) return Errno::EPERM;
  }
  return set_attribute(chan, kSetattrMode, mode & kModeBits, 0);
}

}  // namespace

void p9_device_init() {
  Result<void> started = device.init();
  if (started)
    device_register(&device);
  else if (started.error() != Errno::ENODEV)
    klog("#p9: the host's folder cannot be had: error %d", static_cast<int>(started.error()));
}
