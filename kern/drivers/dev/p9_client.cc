// Each property of a server's answer is checked in one function. Request::send checks the length,
// tag and type of a message. P9Reader checks that a value is present: a missing value reads as
// zero, and ok() is false from then on. The function that returns a value checks the value's range.
// Every loop ends. read() and write() stop at the first answer that transfers less than requested.
// list() has a limit, and fails if an answer does not change the position in the listing.
//
// Every fid is clunked at last, although a process that is ending does not wait long for a slot or
// an answer (VirtioChannel::wait). If the process gets no slot, it cannot clunk its fid. The fid
// then goes to `left_`, and the next request that gets a slot clunks the fid first. Such a request
// will follow, because the holders of the slots still have fids of their own to clunk.
//
// If no answer comes to a request that makes a fid, the server may still make the fid. The fid then
// stays in `late_`, and the slot's next holder clunks the fid.
//
// from_linux() translates an error of the server into the same error of this kernel, and an unknown
// error into EIO. EINTR also becomes EIO: in this kernel EINTR means a pending signal, and the
// caller would retry forever.
#include "drivers/dev/p9_client.h"

#include <algorithm>

namespace {

constexpr uint32_t kNoFid = UINT32_MAX;
constexpr uint16_t kNoTag = UINT16_MAX;
constexpr uint64_t kGetattrBasic = 0x7ff;
constexpr uint32_t kSetattrMode = 1, kSetattrUid = 2, kSetattrGid = 4, kSetattrSize = 8,
                   kSetattrAccessed = 0x10, kSetattrModified = 0x20, kSetattrAccessedTo = 0x80,
                   kSetattrModifiedTo = 0x100;
constexpr uint32_t kLinuxRemoveDirectory = 0x200;

Errno from_linux(uint32_t number) {
  switch (number) {
    case 4:  // EINTR
      return Errno::EIO;
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
  // The numbers up to 34 are those of traditional Unix, and have the same meaning on Linux and on
  // Stele.
  constexpr int kSame[] = {
#define NUMBER(name, value, message) value,
      ABI_ERRNOS(NUMBER)
#undef NUMBER
  };
  for (const int known : kSame)
    if (known <= 34 && static_cast<uint32_t>(known) == number) return static_cast<Errno>(known);
  return Errno::EIO;
}

P9Time time_of(P9Reader& reply) {
  P9Time time;
  time.seconds = reply.u64();
  time.nanoseconds = reply.u64();
  return time;
}

}  // namespace

// A request. The caller writes the arguments with writer(), calls send(), and reads the reply.
class P9Client::Request {
 public:
  // `makes` is the fid that the request shall make, or nullptr. The caller calls made() when the
  // request has succeeded.
  static Result<Request> make(P9Client& client, P9 type, P9Fid* makes = nullptr) {
    for (;;) {
      Result<unsigned> slot = client.transport_.acquire();
      if (!slot) {
        if (makes) makes->forgotten();
        return slot.error();
      }
      P9Fid* const left = client.take_left(*slot);
      if (!left) return Request(client, *slot, type, makes);
      const Result<void> clunked = Request(client, *slot, P9::kTclunk, nullptr).clunk(*left);
      if (!clunked) {
        if (makes) makes->forgotten();
        return clunked.error();
      }
    }
  }
  Request(Request&& other) noexcept
      : client_(std::exchange(other.client_, nullptr)),
        slot_(other.slot_),
        type_(other.type_),
        writer_(other.writer_),
        makes_(std::exchange(other.makes_, nullptr)) {}
  ~Request() {
    if (makes_) makes_->forgotten();
    if (client_) client_->transport_.release(slot_);
  }

  P9Writer& writer() { return writer_; }
  void made() { makes_ = nullptr; }
  // Returns the reply's contents, which are valid as long as the request exists. Fails with the
  // server's error, or with EIO if the reply is invalid.
  Result<P9Reader> send() {
    // If no answer comes in time, the slot's next holder must clunk the fid.
    client_->late_[slot_] = std::exchange(makes_, nullptr);
    const size_t received = std::min<size_t>(TRY(transact()), kP9MessageSize);
    makes_ = std::exchange(client_->late_[slot_], nullptr);
    const char* const reply = client_->transport_.reply(slot_);
    P9Reader header(reply, std::min(received, kP9Header));
    const uint32_t length = header.u32();
    const uint8_t type = header.u8();
    const uint16_t answered = header.u16();
    if (!header.ok() || length < kP9Header || length > received || answered != tag(type_, slot_))
      return Errno::EIO;
    P9Reader contents(reply + kP9Header, length - kP9Header);
    if (type == static_cast<uint8_t>(P9::kRlerror)) return from_linux(contents.u32());
    if (type != static_cast<uint8_t>(type_) + 1) return Errno::EIO;
    return contents;
  }
  // Sends a request whose answer is empty.
  Result<void> send_only() {
    TRY(send());
    return {};
  }
  // The server forgets the fid even if its answer is an error, or if nobody waits for the answer.
  // EINTR or ETIMEDOUT if the answer does not come in time.
  Result<void> clunk(P9Fid& fid) {
    writer_.u32(fid.number);
    const Result<size_t> answered = transact();
    fid.forgotten();
    return answered ? Result<void>() : answered.error();
  }

 private:
  Request(P9Client& client, unsigned slot, P9 type, P9Fid* makes)
      : client_(&client),
        slot_(slot),
        type_(type),
        writer_(client.transport_.request(slot), type, tag(type, slot)),
        makes_(makes) {}
  Result<size_t> transact() { return client_->transport_.transact(slot_, writer_.finish()); }
  static uint16_t tag(P9 type, unsigned slot) {
    return type == P9::kTversion ? kNoTag : static_cast<uint16_t>(slot);
  }

  P9Client* client_;
  const unsigned slot_;
  const P9 type_;
  P9Writer writer_;
  P9Fid* makes_;  // fid that the request shall make; nullptr: none, or made() was called
};

bool p9_is_name(std::string_view name) {
  return !name.empty() && name.size() <= kP9MaxName && name.find('/') == std::string_view::npos &&
         name.find('\0') == std::string_view::npos;
}

P9Fid* P9Client::take_left(unsigned slot) {
  if (P9Fid* const late = std::exchange(late_[slot], nullptr)) return late;
  const Guard guard(lock_);
  return left_.pop_front();
}

Result<P9Qid> P9Client::connect() {
  {
    Request request = TRY(Request::make(*this, P9::kTversion));
    request.writer().u32(kP9MessageSize).string("9P2000.L");
    P9Reader reply = TRY(request.send());
    const uint32_t message_size = reply.u32();
    if (reply.string() != "9P2000.L" || message_size < kP9MessageSize) return Errno::ENOTSUP;
  }
  Request request = TRY(Request::make(*this, P9::kTattach));
  request.writer().u32(kP9RootFid).u32(kNoFid).string("root").string("").u32(0);
  P9Reader reply = TRY(request.send());
  const P9Qid root = reply.qid();
  if (!reply.ok() || !root.directory()) return Errno::EIO;
  return root;
}

Result<P9Qid> P9Client::walk(uint32_t from, P9Fid& to, std::string_view name) {
  Request request = TRY(Request::make(*this, P9::kTwalk, &to));
  request.writer().u32(from).u32(to.number).u16(1).string(name);
  P9Reader reply = TRY(request.send());
  const uint16_t steps = reply.u16();
  if (!reply.ok() || steps > 1) return Errno::EIO;
  if (steps == 0) return Errno::ENOENT;
  const P9Qid qid = reply.qid();
  if (!reply.ok()) return Errno::EIO;
  request.made();
  return qid;
}

Result<void> P9Client::clone(uint32_t from, P9Fid& to) {
  Request request = TRY(Request::make(*this, P9::kTwalk, &to));
  request.writer().u32(from).u32(to.number).u16(0);
  P9Reader reply = TRY(request.send());
  if (reply.u16() != 0 || !reply.ok()) return Errno::EIO;
  request.made();
  return {};
}

bool P9Client::has_left() {
  const Guard guard(lock_);
  return !left_.empty();
}

void P9Client::clunk(P9Fid& fid) {
  // If a fid is in `left_`, no slot was free for an earlier clunk. A process that is ending does
  // not wait for a slot again for each of its files.
  if (!transport_.is_ending() || !has_left()) {
    Result<Request> request = Request::make(*this, P9::kTclunk);
    if (request) {
      static_cast<void>(request->clunk(fid));
      return;
    }
  }
  const Guard guard(lock_);
  left_.push_back(fid);
}

Result<P9Attributes> P9Client::attributes(uint32_t fid) {
  Request request = TRY(Request::make(*this, P9::kTgetattr));
  request.writer().u32(fid).u64(kGetattrBasic);
  P9Reader reply = TRY(request.send());
  P9Attributes attributes;
  reply.u64();  // mask of valid fields
  attributes.qid = reply.qid();
  attributes.mode = reply.u32();
  attributes.uid = reply.u32();
  attributes.gid = reply.u32();
  attributes.links = reply.u64();
  reply.u64();  // device number
  attributes.size = reply.u64();
  reply.u64();  // block size
  attributes.blocks = reply.u64();
  attributes.accessed = time_of(reply);
  attributes.modified = time_of(reply);
  attributes.changed = time_of(reply);
  if (!reply.ok() || attributes.size > INT64_MAX) return Errno::EIO;
  return attributes;
}

Result<void> P9Client::set_attributes(uint32_t fid, const P9Change& change) {
  const auto time_bits = [](const std::optional<P9Change::Time>& time, uint32_t bit, uint32_t to) {
    return !time ? 0 : time->now ? bit : bit | to;
  };
  const uint32_t what = (change.mode ? kSetattrMode : 0) | (change.uid ? kSetattrUid : 0) |
                        (change.gid ? kSetattrGid : 0) | (change.size ? kSetattrSize : 0) |
                        time_bits(change.accessed, kSetattrAccessed, kSetattrAccessedTo) |
                        time_bits(change.modified, kSetattrModified, kSetattrModifiedTo);
  Request request = TRY(Request::make(*this, P9::kTsetattr));
  P9Writer& writer = request.writer();
  writer.u32(fid).u32(what).u32(change.mode.value_or(0)).u32(change.uid.value_or(0));
  writer.u32(change.gid.value_or(0)).u64(change.size.value_or(0));
  for (const auto* time : {&change.accessed, &change.modified}) {
    const P9Time at = *time ? (*time)->at : P9Time{};
    writer.u64(at.seconds).u64(at.nanoseconds);
  }
  return request.send_only();
}

Result<void> P9Client::open(uint32_t fid, uint32_t flags) {
  Request request = TRY(Request::make(*this, P9::kTlopen));
  request.writer().u32(fid).u32(flags);
  return request.send_only();
}

Result<P9Qid> P9Client::create(uint32_t fid, std::string_view name, uint32_t flags, uint32_t mode,
                               uint32_t gid) {
  Request request = TRY(Request::make(*this, P9::kTlcreate));
  request.writer().u32(fid).string(name).u32(flags).u32(mode).u32(gid);
  P9Reader reply = TRY(request.send());
  const P9Qid qid = reply.qid();
  if (!reply.ok()) return Errno::EIO;
  return qid;
}

Result<void> P9Client::make_directory(uint32_t fid, std::string_view name, uint32_t mode,
                                      uint32_t gid) {
  Request request = TRY(Request::make(*this, P9::kTmkdir));
  request.writer().u32(fid).string(name).u32(mode).u32(gid);
  return request.send_only();
}

Result<void> P9Client::symlink(uint32_t directory, std::string_view name, std::string_view target,
                               uint32_t gid) {
  Request request = TRY(Request::make(*this, P9::kTsymlink));
  request.writer().u32(directory).string(name).string(target).u32(gid);
  return request.send_only();
}

Result<void> P9Client::link(uint32_t fid, uint32_t directory, std::string_view name) {
  Request request = TRY(Request::make(*this, P9::kTlink));
  request.writer().u32(directory).u32(fid).string(name);
  return request.send_only();
}

Result<size_t> P9Client::readlink(uint32_t fid, char* target, size_t room) {
  Request request = TRY(Request::make(*this, P9::kTreadlink));
  request.writer().u32(fid);
  P9Reader reply = TRY(request.send());
  const std::string_view text = reply.string();
  if (!reply.ok() || text.find('\0') != std::string_view::npos) return Errno::EIO;
  if (text.size() >= room) return Errno::ENAMETOOLONG;
  memcpy(target, text.data(), text.size());
  return text.size();
}

Result<void> P9Client::sync(uint32_t fid, bool data_only) {
  Request request = TRY(Request::make(*this, P9::kTfsync));
  request.writer().u32(fid).u32(data_only);
  return request.send_only();
}

Result<P9FileSystem> P9Client::file_system(uint32_t fid) {
  Request request = TRY(Request::make(*this, P9::kTstatfs));
  request.writer().u32(fid);
  P9Reader reply = TRY(request.send());
  P9FileSystem result;
  reply.u32();  // type
  result.block_size = reply.u32();
  result.blocks = reply.u64();
  result.blocks_free = reply.u64();
  result.blocks_available = reply.u64();
  result.files = reply.u64();
  result.files_free = reply.u64();
  reply.u64();  // fsid: the id of the file system
  result.longest_name = reply.u32();
  if (!reply.ok()) return Errno::EIO;
  return result;
}

Result<size_t> P9Client::read(uint32_t fid, char* buffer, size_t size, uint64_t offset) {
  size_t done = 0;
  const auto ended_by = [&](Errno error) { return done > 0 ? Result<size_t>(done) : error; };
  while (done < size) {
    Result<Request> request = Request::make(*this, P9::kTread);
    if (!request) return ended_by(request.error());
    const auto wanted = static_cast<uint32_t>(std::min<size_t>(size - done, kP9Payload));
    request->writer().u32(fid).u64(offset + done).u32(wanted);
    Result<P9Reader> reply = request->send();
    if (!reply) return ended_by(reply.error());
    const std::string_view data = reply->bytes(reply->u32());
    if (!reply->ok() || data.size() > wanted) return ended_by(Errno::EIO);
    memcpy(buffer + done, data.data(), data.size());
    done += data.size();
    if (data.size() < wanted) break;
  }
  return done;
}

Result<size_t> P9Client::write(uint32_t fid, const char* buffer, size_t size, uint64_t offset) {
  size_t done = 0;
  const auto ended_by = [&](Errno error) { return done > 0 ? Result<size_t>(done) : error; };
  while (done < size) {
    Result<Request> request = Request::make(*this, P9::kTwrite);
    if (!request) return ended_by(request.error());
    const auto wanted = static_cast<uint32_t>(std::min<size_t>(size - done, kP9Payload));
    request->writer().u32(fid).u64(offset + done).u32(wanted).bytes(buffer + done, wanted);
    Result<P9Reader> reply = request->send();
    if (!reply) return ended_by(reply.error());
    const uint32_t written = reply->u32();
    if (!reply->ok() || written == 0 || written > wanted) return ended_by(Errno::EIO);
    done += written;
    if (written < wanted) break;
  }
  return done;
}

Result<void> P9Client::list(uint32_t fid, P9Listing& listing) {
  size_t listed = 0;
  for (uint64_t offset = 0;;) {
    if (transport_.is_ending()) return Errno::EINTR;
    Request request = TRY(Request::make(*this, P9::kTreaddir));
    request.writer().u32(fid).u64(offset).u32(kP9Payload);
    P9Reader reply = TRY(request.send());
    const std::string_view data = reply.bytes(reply.u32());
    if (!reply.ok()) return Errno::EIO;
    if (data.empty()) return {};
    const uint64_t asked_for = offset;
    listed += kP9AnswerSize;
    for (P9Reader at(data.data(), data.size()); !at.at_end();) {
      const P9Qid qid = at.qid();
      offset = at.u64();
      const uint8_t type = at.u8();
      const std::string_view name = at.string();
      listed += kP9EntrySize + name.size();
      if (!at.ok() || listed > kP9MaxListing) return Errno::EIO;
      if (p9_is_name(name) && name != "." && name != "..") TRY(listing.add(qid, type, name));
    }
    if (offset == asked_for) return Errno::EIO;
  }
}

Result<void> P9Client::remove(uint32_t directory, std::string_view name, bool is_directory) {
  Request request = TRY(Request::make(*this, P9::kTunlinkat));
  request.writer().u32(directory).string(name).u32(is_directory ? kLinuxRemoveDirectory : 0);
  return request.send_only();
}

Result<void> P9Client::rename(uint32_t directory, std::string_view name, uint32_t new_directory,
                              std::string_view new_name) {
  Request request = TRY(Request::make(*this, P9::kTrenameat));
  request.writer().u32(directory).string(name).u32(new_directory).string(new_name);
  return request.send_only();
}
