// #p9: a folder of the host, by 9P2000.L over virtio (QEMU: -virtfs
// local,path=DIR,mount_tag=…,security_model=none).
//
// Every channel has a fid, a number by which the server knows the file. Walking, attaching and
// creating make the fid. Closing clunks the fid, at once or later (p9_client.cc). The server is the
// emulator, which usually answers at once. Nevertheless its answers are not trusted (p9_client.cc),
// and a process that waits for an answer can be killed (virtio.h). This device holds no lock while
// a process waits. The page cache holds a file's sync_lock while it truncates the file or writes
// pages back.
//
// When a program reads a directory from the beginning, this device makes a copy of all entries, the
// listing. The positions that programs get are offsets in the listing. The server's own positions
// cannot be used, because they may use all 64 bits, but a program's offset is signed. The listing
// belongs to the channel's fid, and a sleeping lock guards it.
//
// The server checks permissions as the host's user who runs the emulator. In addition, the guest
// checks the permissions of its own users, except root: src/ns/ checks the directories of a path,
// and this device checks opens, truncations and changes of attributes. #p9 is registered only if
// the machine has a virtio device for 9P.

#include <algorithm>
#include <atomic>

#include "core/errstr.h"
#include "core/log.h"
#include "core/planted.h"
#include "drivers/dev/devices.h"
#include "drivers/dev/p9_client.h"
#include "drivers/virtio/virtio.h"
#include "kmalloc.h"
#include "lib/format.h"
#include "ns/device.h"
#include "ns/namespace.h"
#include "ns/page_cache.h"
#include "proc/process.h"
#include "sched/task.h"

namespace {

constexpr uint16_t kDeviceId = 0x1009;
constexpr uint32_t kFeatureMountTag = 1;
constexpr uint8_t kVector = 0x60;

// Linux's open flags, which the protocol uses.
constexpr uint32_t kLinuxAccess = 3, kLinuxExclusive = 0200, kLinuxAppend = 02000,
                   kLinuxDirectory = 0200000;

// Mode bits that a guest may set. The set-user-id and set-group-id bits are missing: a file that
// the guest creates belongs to the host's user who runs the emulator, and the file must not let
// other users of the host act with this user's rights.
constexpr uint32_t kModeBits = 01777;

class VirtioTransport final : public P9Transport {
 public:
  // ENODEV, ENOMEM.
  Result<void> init() {
    TRY(channel_.start(kDeviceId, kFeatureMountTag, kVector, "p9"));
    for (auto& slot : buffers_) {
      for (char*& buffer : slot) {
        buffer = static_cast<char*>(kmalloc_bytes(kP9MessageSize, KM_SLEEP));
        if (!buffer) return Errno::ENOMEM;
      }
    }
    return {};
  }
  Result<unsigned> acquire() override { return channel_.acquire(); }
  void release(unsigned slot) override { channel_.release(slot); }
  char* request(unsigned slot) override { return buffers_[slot][0]; }
  const char* reply(unsigned slot) override { return buffers_[slot][1]; }
  Result<size_t> transact(unsigned slot, size_t size) override {
    return channel_.transact(slot, buffers_[slot][0], size, buffers_[slot][1], kP9MessageSize);
  }
  bool is_ending() override { return process_is_ending(); }

 private:
  static_assert(VirtioChannel::kSlots <= kP9Slots);
  VirtioChannel channel_;
  char* buffers_[VirtioChannel::kSlots][2] = {};  // for each slot: request, reply; set at boot
};

constinit VirtioTransport transport;
constinit P9Client client(transport);

struct Fid final : P9Fid {
  using P9Fid::P9Fid;
  static Result<Fid*> make();  // ENOMEM
  void forgotten() override;

  // For an open directory, the listing: for each entry, a struct Listed and the name.
  // P9Device::lock_ guards the listing.
  Text* listing = nullptr;
};
struct Listed {
  uint64_t path;
  uint8_t type;  // as in abi_dirent
  uint8_t name_length;
};
static_assert(kP9MaxName == kMaxName && kMaxName <= UINT8_MAX);

constinit ObjectCache<Fid> fid_cache;
constinit std::atomic<uint32_t> next_fid{kP9FirstFid};

Result<Fid*> Fid::make() {
  return fid_cache.make(KM_SLEEP, next_fid.fetch_add(1, std::memory_order_relaxed));
}
void Fid::forgotten() {
  if (!planted(Planted::kHostFile)) fid_cache.destroy(this);
}

abi_timespec time_from(const P9Time& time) {
  return {static_cast<int64_t>(time.seconds), static_cast<int64_t>(time.nanoseconds)};
}

// Makes the listing of a directory (Fid::listing) in a text.
class TextListing final : public P9Listing {
 public:
  explicit TextListing(Text& text) : text_(text) {}
  Result<void> add(const P9Qid& qid, uint8_t type, std::string_view name) override {
    const Listed listed = {
        .path = qid.path, .type = type, .name_length = static_cast<uint8_t>(name.size())};
    text_.append({reinterpret_cast<const char*>(&listed), sizeof listed});
    text_.append(name);
    return text_.failed() ? Errno::ENOMEM : Result<void>();
  }

 private:
  Text& text_;
};

// Finds the name of the file with qid path `path` in a directory, and stores the name in `name`;
// "" if the directory does not have the file.
class NameListing final : public P9Listing {
 public:
  NameListing(uint64_t path, char* name) : path_(path), name_(name) { name[0] = '\0'; }
  Result<void> add(const P9Qid& qid, uint8_t, std::string_view name) override {
    if (qid.path != path_) return {};
    memcpy(name_, name.data(), name.size());
    name_[name.size()] = '\0';
    return {};
  }

 private:
  const uint64_t path_;
  char* const name_;
};

class P9Device final : public Device, public PageSource {
 public:
  constexpr P9Device() : Device("p9") {}
  // ENODEV if the machine has no virtio device for 9P.
  Result<void> init();

  Result<Ref<Chan>> attach(std::string_view spec) override;
  Result<Ref<Chan>> walk(Chan& chan, std::string_view name, const Credentials& who) override;
  Result<void> stat(Chan& chan, abi_stat& stat) override;
  Result<Ref<Chan>> open(Ref<Chan> chan, uint32_t flags, const Credentials& who) override;
  Result<Ref<Chan>> create(Chan& directory, std::string_view name, uint32_t flags, uint32_t mode,
                           const Credentials& who) override;
  Result<size_t> read(Chan& chan, char* buffer, size_t size, uint64_t offset) override;
  Result<size_t> write(Chan& chan, const char* buffer, size_t size, uint64_t offset) override;
  Result<void> map(Chan& chan, bool writes) override;
  Result<FilePage> page(Chan& chan, uint64_t index) override {
    return page_cache_page(chan, *this, index);
  }
  Result<void> sync_pages(Chan& chan, uint64_t offset, uint64_t size, SyncErrors errors) override {
    return page_cache_sync(chan, offset, size, errors);
  }
  Result<size_t> read_source(Chan& chan, char* buffer, size_t size, uint64_t offset) override {
    return client.read(number_of(chan), buffer, size, offset);
  }
  Result<size_t> write_source(Chan& chan, const char* buffer, size_t size,
                              uint64_t offset) override {
    return client.write(number_of(chan), buffer, size, offset);
  }
  Result<void> entry(Chan& directory, uint64_t& position, abi_stat& entry, char* name) override;
  void close(Chan& chan) override;
  Result<void> clone_state(Chan& chan, Chan& copy) override;
  Result<void> remove(Chan& chan, const DirectoryEntry& from, const Credentials& who) override;
  Result<void> rename(Chan& chan, const DirectoryEntry& from, const DirectoryEntry& to,
                      const Credentials& who) override;
  Result<Ref<Chan>> parent(Chan& chan, char* name) override;
  Result<void> truncate(Chan& chan, uint64_t size, const Credentials& who) override;
  Result<void> symlink(Chan& directory, std::string_view name, std::string_view target,
                       const Credentials& who) override;
  Result<size_t> readlink(Chan& chan, char* target) override;
  Result<void> link(Chan& chan, const DirectoryEntry& to, const Credentials& who) override;
  Result<void> set_attributes(Chan& chan, const AttributeChange& change,
                              const Credentials& who) override;
  Result<void> sync(Chan& chan, bool data_only) override;
  Result<void> statfs(Chan& chan, abi_statfs& result) override;
  bool one_offset() const override { return true; }
  // Files belong to users and groups of the host. A set-user-id or set-group-id bit would give a
  // program the rights of an unrelated user or group of this system, one with the same number.
  bool grants_rights() const override { return false; }

 private:
  static Fid& fid_of(const Chan& chan) { return *static_cast<Fid*>(chan.state); }
  static uint32_t number_of(const Chan& chan) { return fid_of(chan).number; }
  Result<Ref<Chan>> channel_for(Fid& fid, const P9Qid& qid);
  Result<Ref<Chan>> walk_from(uint32_t fid, std::string_view name);
  Result<Ref<Chan>> clone_of(uint32_t fid, const P9Qid& qid);
  Result<void> open_fid(Chan& chan, uint32_t flags);
  Result<Text*> list(uint32_t fid);
  bool is_listed(const Fid& fid) {
    MutexGuard guard(lock_);
    return fid.listing;
  }

  P9Qid root_{};
  Mutex lock_{LockRank::kDeviceMutex};  // guards Fid::listing
};

constinit P9Device device;

Result<void> P9Device::init() {
  TRY(transport.init());
  fid_cache.init("p9_fid");
  root_ = TRY(client.connect());
  return {};
}

// Makes a channel that owns `fid`; clunks `fid` on failure.
Result<Ref<Chan>> P9Device::channel_for(Fid& fid, const P9Qid& qid) {
  Result<Ref<Chan>> chan = Chan::create(this, {.path = qid.path,
                                               .version = qid.version,
                                               .directory = qid.directory(),
                                               .symlink = qid.symlink()});
  if (chan)
    (*chan)->state = &fid;
  else
    client.clunk(fid);
  return chan;
}

Result<Ref<Chan>> P9Device::walk_from(uint32_t fid, std::string_view name) {
  Fid* const made = TRY(Fid::make());
  const P9Qid qid = TRY(client.walk(fid, *made, name));
  return channel_for(*made, qid);
}

// Makes a channel to the same file as `fid`. `qid` is the file's qid.
Result<Ref<Chan>> P9Device::clone_of(uint32_t fid, const P9Qid& qid) {
  Fid* const made = TRY(Fid::make());
  TRY(client.clone(fid, *made));
  return channel_for(*made, qid);
}

Result<Ref<Chan>> P9Device::attach(std::string_view spec) {
  if (!spec.empty()) return fail(Errno::ENXIO, "#p9 takes no argument after its name");
  return clone_of(kP9RootFid, root_);
}

Result<Ref<Chan>> P9Device::walk(Chan& chan, std::string_view name, const Credentials&) {
  if (!chan.qid.directory) return Errno::ENOTDIR;
  return walk_from(number_of(chan), name);
}

Result<void> P9Device::stat(Chan& chan, abi_stat& stat) {
  const P9Attributes attributes = TRY(client.attributes(number_of(chan)));
  const bool is_directory = (attributes.mode & ABI_S_IFMT) == ABI_S_IFDIR;
  const bool is_symlink = (attributes.mode & ABI_S_IFMT) == ABI_S_IFLNK;
  if (is_directory != chan.qid.directory || is_symlink != chan.qid.symlink) return Errno::EIO;
  fill_stat(stat, attributes.qid.path, attributes.mode & (ABI_S_IFMT | 07777), attributes.size);
  stat.uid = attributes.uid;
  stat.gid = attributes.gid;
  stat.nlink = static_cast<uint32_t>(attributes.links);
  stat.blocks = attributes.blocks;
  stat.atime = time_from(attributes.accessed);
  stat.mtime = time_from(attributes.modified);
  stat.ctime = time_from(attributes.changed);
  return {};
}

Result<void> P9Device::open_fid(Chan& chan, uint32_t flags) {
  uint32_t linux_flags = flags & kLinuxAccess;
  if (flags & ABI_O_APPEND) linux_flags |= kLinuxAppend;
  if (chan.qid.directory) linux_flags |= kLinuxDirectory;
  TRY(client.open(number_of(chan), linux_flags));
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
    TRY(client.make_directory(number_of(directory), name, mode & kModeBits, who.gid));
    Ref<Chan> made = TRY(walk_from(number_of(directory), name));
    TRY(open_fid(*made, ABI_O_RDONLY));
    return made;
  }
  if ((mode & ABI_S_IFMT) == ABI_S_IFIFO)
    return fail(Errno::EPERM, "#p9: the emulator makes no FIFOs");
  // client.create() turns the fid of the directory into the fid of the new file. So `made` is a
  // channel with a copy of the directory's fid.
  Ref<Chan> made = TRY(clone_of(number_of(directory), {.type = 0, .version = 0, .path = 0}));
  const uint32_t linux_flags =
      (flags & kLinuxAccess) | kLinuxExclusive | (flags & ABI_O_APPEND ? kLinuxAppend : 0);
  const P9Qid qid =
      TRY(client.create(number_of(*made), name, linux_flags, mode & kModeBits, who.gid));
  made->qid = {.path = qid.path, .version = qid.version, .directory = false};
  page_cache_forget(*this, qid.path);  // pages of a deleted file that had the same qid path
  made->is_open = true;
  made->open_flags = flags;
  return made;
}

Result<size_t> P9Device::read(Chan& chan, char* buffer, size_t size, uint64_t offset) {
  if (chan.qid.directory) return Errno::EISDIR;
  return page_cache_read(chan, *this, buffer, size, offset);
}

Result<void> P9Device::map(Chan& chan, bool writes) {
  if (chan.qid.directory || chan.qid.symlink) return Errno::ENODEV;
  return page_cache_map(chan, *this, writes);
}

Result<size_t> P9Device::write(Chan& chan, const char* buffer, size_t size, uint64_t offset) {
  if (chan.qid.directory) return Errno::EISDIR;
  const bool append = chan.open_flags & ABI_O_APPEND;
  if (append) offset = TRY(client.attributes(number_of(chan))).size;
  const size_t done = TRY(page_cache_write(chan, *this, buffer, size, offset));
  if (append) chan.offset = offset + done;
  return done;
}

Result<Text*> P9Device::list(uint32_t fid) {
  Text* const text = TRY(Text::create());
  TextListing listing(*text);
  if (Result<void> listed = client.list(fid, listing); !listed) {
    Text::destroy(text);
    return listed.error() == Errno::EIO
               ? fail(Errno::EIO, "#p9: the host's folder cannot be listed, or has no end")
               : listed.error();
  }
  return text;
}

Result<void> P9Device::entry(Chan& directory, uint64_t& position, abi_stat& entry, char* name) {
  Fid& fid = fid_of(directory);
  if (position == 0 || !is_listed(fid)) {
    Text* const fresh = TRY(list(fid.number));
    MutexGuard guard(lock_);
    Text::destroy(std::exchange(fid.listing, fresh));
  }
  MutexGuard guard(lock_);
  // The position comes from a program, so it can lie within an entry.
  Listed listed;
  if (fid.listing->read(reinterpret_cast<char*>(&listed), sizeof listed, position) != sizeof listed)
    return Errno::ENOENT;
  const size_t length = fid.listing->read(name, listed.name_length, position + sizeof listed);
  if (!p9_is_name({name, length})) return Errno::ENOENT;
  name[length] = '\0';
  fill_stat(entry, listed.path, uint32_t{listed.type} << 12);
  position += sizeof listed + length;
  return {};
}

void P9Device::close(Chan& chan) {
  if (!chan.state) return;
  Fid& fid = fid_of(chan);
  Text::destroy(std::exchange(fid.listing, nullptr));
  client.clunk(fid);
}

Result<void> P9Device::clone_state(Chan& chan, Chan& copy) {
  const P9Qid qid = {.type = 0, .version = chan.qid.version, .path = chan.qid.path};
  Ref<Chan> same = TRY(clone_of(number_of(chan), qid));
  std::swap(copy.state, same->state);
  return {};
}

// remove() and rename() use the calls of the protocol that take names. After a rename by fid, QEMU
// would update only some of the fids of the file and of the files below it.
Result<void> P9Device::remove(Chan& chan, const DirectoryEntry& from, const Credentials&) {
  return client.remove(number_of(from.directory), from.name, chan.qid.directory);
}

Result<void> P9Device::rename(Chan&, const DirectoryEntry& from, const DirectoryEntry& to,
                              const Credentials&) {
  return client.rename(number_of(from.directory), from.name, number_of(to.directory), to.name);
}

Result<Ref<Chan>> P9Device::parent(Chan& chan, char* name) {
  if (!chan.qid.directory)
    return fail(Errno::ENOENT, "#p9: the host cannot say where a file is now");
  if (chan.qid.path == root_.path) return Ref<Chan>();
  Ref<Chan> parent = TRY(walk_from(number_of(chan), ".."));
  if (!parent->qid.directory) return Errno::EIO;
  Ref<Chan> open =
      TRY(clone_of(number_of(*parent), {.type = 0, .version = 0, .path = parent->qid.path}));
  TRY(client.open(number_of(*open), kLinuxDirectory));
  NameListing listing(chan.qid.path, name);
  TRY(client.list(number_of(*open), listing));
  if (name[0] == '\0') return Errno::ENOENT;
  return parent;
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
  struct Cut {
    uint32_t fid;
    uint64_t size;
  } cut{number_of(chan), size};
  const auto do_cut = [](void* argument) {
    const Cut& what = *static_cast<Cut*>(argument);
    P9Change change;
    change.size = what.size;
    return client.set_attributes(what.fid, change);
  };
  return page_cache_truncate(chan, *this, size, do_cut, &cut);
}

Result<void> P9Device::symlink(Chan& directory, std::string_view name, std::string_view target,
                               const Credentials& who) {
  return client.symlink(number_of(directory), name, target, who.gid);
}

Result<size_t> P9Device::readlink(Chan& chan, char* target) {
  return client.readlink(number_of(chan), target, kMaxPath);
}

Result<void> P9Device::link(Chan& chan, const DirectoryEntry& to, const Credentials&) {
  return client.link(number_of(chan), number_of(to.directory), to.name);
}

Result<void> P9Device::set_attributes(Chan& chan, const AttributeChange& change,
                                      const Credentials& who) {
  abi_stat now;
  TRY(stat(chan, now));
  AttributeChange allowed = change;
  TRY(check_attributes(now, allowed, who));
  const auto time_of = [](const std::optional<AttributeChange::Time>& time) {
    std::optional<P9Change::Time> to;
    if (time) {
      to = {.now = time->now,
            .at = {static_cast<uint64_t>(time->at.sec), static_cast<uint64_t>(time->at.nsec)}};
    }
    return to;
  };
  P9Change host;
  if (allowed.mode) host.mode = *allowed.mode & kModeBits;
  host.uid = allowed.uid;
  host.gid = allowed.gid;
  host.accessed = time_of(allowed.accessed);
  host.modified = time_of(allowed.modified);
  return client.set_attributes(number_of(chan), host);
}

Result<void> P9Device::sync(Chan& chan, bool data_only) {
  TRY(page_cache_sync(chan, 0, UINT64_MAX, SyncErrors::kTell));
  return client.sync(number_of(chan), data_only);
}

Result<void> P9Device::statfs(Chan& chan, abi_statfs& result) {
  TRY(Device::statfs(chan, result));
  const P9FileSystem host = TRY(client.file_system(number_of(chan)));
  result.block_size = host.block_size;
  result.blocks = host.blocks;
  result.blocks_free = host.blocks_free;
  result.blocks_available = host.blocks_available;
  result.files = host.files;
  result.files_free = host.files_free;
  result.longest_name = std::min<uint32_t>(host.longest_name, kMaxName);
  return {};
}

}  // namespace

void p9_device_init() {
  Result<void> started = device.init();
  if (started)
    device_register(&device);
  else if (started.error() != Errno::ENODEV)
    klog("#p9: the host's folder cannot be opened: error %d", static_cast<int>(started.error()));
}
