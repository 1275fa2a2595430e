// A client of a 9P2000.L server: one function for each call of the protocol. The client does not
// trust the server. For every possible answer, a call ends and returns an error or a value in
// range. The call accesses only memory of the client and of the caller.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "core/spinlock.h"
#include "drivers/dev/p9_message.h"
#include "lib/list.h"
#include "lib/result.h"

inline constexpr uint32_t kP9MessageSize = 64 * 1024;
inline constexpr uint32_t kP9Payload =
    kP9MessageSize - 4096;  // bytes of one read or write; less than the room in a message
inline constexpr unsigned kP9Slots = 4;  // concurrent requests, at most
inline constexpr uint32_t kP9RootFid = 0, kP9FirstFid = 1;
inline constexpr size_t kP9MaxName = 255;
// kP9MaxListing limits the bytes of a directory listing. list() adds up kP9EntrySize and the name's
// length for each entry, and kP9AnswerSize for each answer of the server.
inline constexpr size_t kP9MaxListing = 8 << 20, kP9EntrySize = 16, kP9AnswerSize = 4096;

// True if a file may have the name: 1 to kP9MaxName bytes without slashes and NULs.
bool p9_is_name(std::string_view name);

// Carries messages to a server. A request and its reply share a slot, which has memory for both.
// All calls may sleep.
class P9Transport {
 public:
  // Takes a free slot and returns its number, which is less than kP9Slots. Slots are taken in
  // rotation, so that each free slot is used again soon. EINTR, ETIMEDOUT.
  virtual Result<unsigned> acquire() = 0;
  virtual void release(unsigned slot) = 0;
  virtual char* request(unsigned slot) = 0;      // kP9MessageSize bytes
  virtual const char* reply(unsigned slot) = 0;  // kP9MessageSize bytes
  // Sends the request's first `size` bytes. Returns the size of the answer, but stores at most
  // kP9MessageSize bytes of the answer. After EINTR or ETIMEDOUT nobody waits for the answer any
  // more; even after release(), the slot is not free until the answer comes.
  virtual Result<size_t> transact(unsigned slot, size_t size) = 0;
  // True if the caller's process is ending: loops of requests must end too.
  virtual bool is_ending() = 0;
};

// A fid: a number by which the client refers to a file of the server. The user of the client
// provides the memory of a P9Fid.
class P9Fid {
 public:
  constexpr explicit P9Fid(uint32_t fid) : number(fid) {}
  const uint32_t number;
  // Called when the server does not have the fid, or has been told to forget the fid. The client
  // does not use the object afterwards. May sleep.
  virtual void forgotten() = 0;

 private:
  friend class P9Client;
  ListNode link_;
};

struct P9Time {
  uint64_t seconds, nanoseconds;
};
struct P9Attributes {
  P9Qid qid;
  uint32_t mode, uid, gid;
  uint64_t links, size, blocks;  // size: at most INT64_MAX; blocks of 512 bytes
  P9Time accessed, modified, changed;
};

// Changes of a file's attributes; attributes without a value stay as they are.
struct P9Change {
  struct Time {
    bool now;  // true: the server's current time
    P9Time at;
  };
  std::optional<uint32_t> mode, uid, gid;
  std::optional<uint64_t> size;
  std::optional<Time> accessed, modified;
};
struct P9FileSystem {
  uint64_t block_size, blocks, blocks_free, blocks_available, files, files_free;
  uint32_t longest_name;
};

// Receives the entries of a directory.
class P9Listing {
 public:
  // `name` is valid (p9_is_name), and not `.` or `..`; `type` comes from the server unchecked. An
  // error ends the listing.
  virtual Result<void> add(const P9Qid& qid, uint8_t type, std::string_view name) = 0;
};

// The caller chooses the numbers of fids. clunk() hands its P9Fid over to the client. walk() and
// clone() hand the new P9Fid over to the client if they fail. The client calls forgotten() for each
// P9Fid that was handed over, perhaps only after clunk(), walk() or clone() has returned.
//
// Every call may also fail with an error of the server (never EINTR), with EIO for an invalid
// answer, with an error of the transport, or with ENOMEM. Any number of callers may use the client
// at the same time.
class P9Client {
 public:
  constexpr explicit P9Client(P9Transport& transport) : transport_(transport) {}

  // Agrees on the protocol and attaches kP9RootFid. Called once, before all other calls. ENOTSUP.
  Result<P9Qid> connect();
  // Makes `to` the entry `name` of `from`. ENOENT.
  Result<P9Qid> walk(uint32_t from, P9Fid& to, std::string_view name);
  // Makes `to` the same file as `from`.
  Result<void> clone(uint32_t from, P9Fid& to);
  // Clunks a fid, that is, tells the server to forget the fid. If no slot is free, the next call
  // that gets a slot clunks the fid first.
  void clunk(P9Fid& fid);
  Result<P9Attributes> attributes(uint32_t fid);
  Result<void> set_attributes(uint32_t fid, const P9Change& change);
  // Opens the file of `fid`. `flags` are Linux's open flags.
  Result<void> open(uint32_t fid, uint32_t flags);
  // Makes and opens a file in the directory of `fid`. Afterwards `fid` means the file.
  Result<P9Qid> create(uint32_t fid, std::string_view name, uint32_t flags, uint32_t mode,
                       uint32_t gid);
  Result<void> make_directory(uint32_t fid, std::string_view name, uint32_t mode, uint32_t gid);
  // `gid` is the group of the file.
  Result<void> symlink(uint32_t directory, std::string_view name, std::string_view target,
                       uint32_t gid);
  Result<void> link(uint32_t fid, uint32_t directory, std::string_view name);
  // Copies the target of a symbolic link to `target`, a buffer of `room` bytes, without a NUL.
  // Returns the target's length, which is less than `room`. ENAMETOOLONG.
  Result<size_t> readlink(uint32_t fid, char* target, size_t room);
  // Syncs an open file. `data_only`: the file's times need not be synced.
  Result<void> sync(uint32_t fid, bool data_only);
  Result<P9FileSystem> file_system(uint32_t fid);
  // read() and write() return less than `size` if an answer of the server is short, as at the end
  // of a file, or if an error follows a partial transfer.
  Result<size_t> read(uint32_t fid, char* buffer, size_t size, uint64_t offset);
  Result<size_t> write(uint32_t fid, const char* buffer, size_t size, uint64_t offset);
  // Lists all entries of an open directory. EIO if an answer does not change the position in the
  // listing, or if the listing exceeds kP9MaxListing. EINTR if the process is ending.
  Result<void> list(uint32_t fid, P9Listing& listing);
  // Removes the entry `name` of a directory. If `is_directory`, the entry must be an empty
  // directory; otherwise it must be a file.
  Result<void> remove(uint32_t directory, std::string_view name, bool is_directory);
  Result<void> rename(uint32_t directory, std::string_view name, uint32_t new_directory,
                      std::string_view new_name);

 private:
  class Request;

  // Takes a fid that the caller must clunk before it makes its own request in `slot`; nullptr if
  // there is none.
  P9Fid* take_left(unsigned slot);
  bool has_left();

  P9Transport& transport_;
  // An element for each slot. While the slot's request waits for its answer, the element is the fid
  // that the request makes. If no answer comes in time, the slot's next holder clunks this fid.
  // Only the holder of a slot accesses the slot's element.
  P9Fid* late_[kP9Slots] = {};
  Spinlock lock_{LockRank::kDevice};
  // Fids that must still be clunked, because no slot was free. Under `lock_`.
  List<P9Fid, &P9Fid::link_> left_ GUARDED_BY(lock_);
};
