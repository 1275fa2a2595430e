// A client of a 9P2000.L server that it does not trust: the calls, as functions. Whatever a server
// answers, a call ends, gives what is in range or an error, and touches no memory but its own.
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
inline constexpr uint32_t kP9Payload = kP9MessageSize - 4096;  // of one read or write; well below
                                                               // what fits
inline constexpr unsigned kP9Slots = 4;  // requests on their way at once, at most
inline constexpr uint32_t kP9RootFid = 0, kP9FirstFid = 1;
inline constexpr size_t kP9MaxName = 255;
// Bytes that the names of a directory may take, with so many more for each, and for each answer.
inline constexpr size_t kP9MaxListing = 8 << 20, kP9EntrySize = 16, kP9AnswerSize = 4096;

// Whether a file may have the name: 1 to kP9MaxName bytes without slashes and NULs.
bool p9_is_name(std::string_view name);

// What carries messages to a server. A request and its reply have a slot, which has memory for
// both. All of it may sleep.
class P9Transport {
 public:
  // A slot that is free, below kP9Slots. All come round: none stays free while others are taken
  // again and again. EINTR, ETIMEDOUT.
  virtual Result<unsigned> acquire() = 0;
  virtual void release(unsigned slot) = 0;
  virtual char* request(unsigned slot) = 0;      // kP9MessageSize bytes
  virtual const char* reply(unsigned slot) = 0;  // kP9MessageSize bytes
  // Sends the request's first `size` bytes; how many bytes the answer has, of which those beyond
  // kP9MessageSize are not there. EINTR, ETIMEDOUT: nobody waits for the answer any more, and the
  // slot is not free until it comes.
  virtual Result<size_t> transact(unsigned slot, size_t size) = 0;
  // Whether the caller's process is to end: a loop of requests does too.
  virtual bool is_ending() = 0;
};

// A fid, which is the server's name for a file, as its owner keeps it.
class P9Fid {
 public:
  constexpr explicit P9Fid(uint32_t fid) : number(fid) {}
  const uint32_t number;
  // The server does not have it, or has been told to forget it: the client is done with the object.
  // May sleep.
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

// What becomes of a file's attributes; what has no value stays.
struct P9Change {
  struct Time {
    bool now;  // the server's present time
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

// What becomes of the entries of a directory.
class P9Listing {
 public:
  // `name` is one (p9_is_name), and not `.` or `..`; `type` is the server's. An error ends the
  // listing.
  virtual Result<void> add(const P9Qid& qid, uint8_t type, std::string_view name) = 0;
};

// Numbers of fids are the caller's to choose. A P9Fid is the client's from clunk() on, or from when
// a call has failed that should have made it; its forgotten() may come later than the call ends.
//
// Errors besides those that are named: the server's own, which are
// never EINTR; EIO when its answer makes no sense; the transport's; ENOMEM. Any number of tasks at
// once.
class P9Client {
 public:
  constexpr explicit P9Client(P9Transport& transport) : transport_(transport) {}

  // Agrees on the protocol and attaches kP9RootFid. Once, before all other calls. ENOTSUP.
  Result<P9Qid> connect();
  // Makes `to` the entry `name` of `from`. ENOENT.
  Result<P9Qid> walk(uint32_t from, P9Fid& to, std::string_view name);
  // Makes `to` the same file as `from`.
  Result<void> clone(uint32_t from, P9Fid& to);
  // Gives a fid up. If there is no slot, the next call that gets one does it.
  void clunk(P9Fid& fid);
  Result<P9Attributes> attributes(uint32_t fid);
  Result<void> set_attributes(uint32_t fid, const P9Change& change);
  // `flags` are Linux's.
  Result<void> open(uint32_t fid, uint32_t flags);
  // Makes and opens a file in the directory `fid`, which becomes the file.
  Result<P9Qid> create(uint32_t fid, std::string_view name, uint32_t flags, uint32_t mode,
                       uint32_t gid);
  Result<void> make_directory(uint32_t fid, std::string_view name, uint32_t mode, uint32_t gid);
  // `gid` is who the file is for.
  Result<void> symlink(uint32_t directory, std::string_view name, std::string_view target,
                       uint32_t gid);
  Result<void> link(uint32_t fid, uint32_t directory, std::string_view name);
  // Into `target`, which has `room` bytes: its length, below `room`. ENAMETOOLONG.
  Result<size_t> readlink(uint32_t fid, char* target, size_t room);
  // Of an open file. `data_only`: its times may be lost.
  Result<void> sync(uint32_t fid, bool data_only);
  Result<P9FileSystem> file_system(uint32_t fid);
  // Less than `size` at the end; what was transferred before an error counts.
  Result<size_t> read(uint32_t fid, char* buffer, size_t size, uint64_t offset);
  Result<size_t> write(uint32_t fid, const char* buffer, size_t size, uint64_t offset);
  // All entries of an open directory. EIO if it goes in circles or is longer than kP9MaxListing;
  // EINTR.
  Result<void> list(uint32_t fid, P9Listing& listing);
  // Of the entry `name` of a directory. `is_directory`: of an empty directory, else of a file.
  Result<void> remove(uint32_t directory, std::string_view name, bool is_directory);
  Result<void> rename(uint32_t directory, std::string_view name, uint32_t new_directory,
                      std::string_view new_name);

 private:
  class Request;

  // A fid that is to be clunked before the caller makes its own request in `slot`.
  P9Fid* take_left(unsigned slot);
  bool has_left();

  P9Transport& transport_;
  // The fid that the last request in the slot should have made, if nobody waited for the answer.
  // Whoever has the slot has this too.
  P9Fid* late_[kP9Slots] = {};
  Spinlock lock_{LockRank::kDevice};
  // Under `lock_`: fids for whose clunk there was no slot.
  List<P9Fid, &P9Fid::link_> left_ GUARDED_BY(lock_);
};
