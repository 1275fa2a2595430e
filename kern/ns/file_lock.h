// Locks on files. A record lock (fcntl) covers a range of bytes; its owner is a process. A flock
// covers a whole file; its owner is an open file. The theory is in file_lock.cc.
#pragma once

#include <cstdint>

#include "lib/result.h"
#include "ns/device.h"

class FdTable;

// Bytes `first` to `last` of a file, inclusive. `last` kLastByte: the range reaches to the end of
// the file, even if the file grows.
struct ByteRange {
  static constexpr uint64_t kLastByte = INT64_MAX;
  uint64_t first = 0, last = kLastByte;

  bool overlaps(const ByteRange& other) const { return first <= other.last && other.first <= last; }
  // True if the two ranges overlap or are adjacent.
  bool touches(const ByteRange& other) const {
    return overlaps(other) || (last != kLastByte && last + 1 == other.first) ||
           (other.last != kLastByte && other.last + 1 == first);
  }
  bool operator==(const ByteRange&) const = default;
};
// Returns the range that a struct abi_flock describes: `length` bytes from position `base` +
// `start` on. If `length` is negative, the range has -length bytes and ends before this position.
// If `length` is 0, the range reaches to kLastByte. EINVAL if the range begins before the file or
// overflows.
Result<ByteRange> byte_range(uint64_t base, int64_t start, int64_t length);

enum class LockKind : uint8_t { kNone, kShared, kExclusive };

// The owner of a lock.
struct LockOwner {
  const void* owner = nullptr;  // the descriptor table of a process, or an open file
  uint32_t pid = 0;             // the PID that F_GETLK reports
};
// A lock that conflicts with another one, found by record_lock_find().
struct FoundLock {
  LockKind kind = LockKind::kNone;  // kNone: no lock conflicts
  ByteRange range;
  uint32_t pid = 0;
};

// The descriptor through which a process sets a record lock.
struct LockDescriptor {
  FdTable& table;
  int fd;
};

enum class LockWait : uint8_t { kNo, kYes };

// --- Record locks. `chan` is an open file of a device for which Device::one_offset() is true. May
// sleep.
//
// Returns the first lock of another owner that conflicts with a lock of `kind` on `range`.
FoundLock record_lock_find(const Chan& chan, const LockOwner& owner, LockKind kind,
                           ByteRange range);
// Gives `owner` a lock of `kind` on the range, in place of the owner's present locks there. kNone
// only removes the present locks. EAGAIN if another owner has a conflicting lock. With
// LockWait::kYes, waits for the other owner instead of returning EAGAIN. The wait may end with
// EINTR. EDEADLK if the other owner waits, directly or through further owners, for a lock of
// `owner`. ENOLCK when out of memory. With `descriptor`, which a caller gives if other threads may
// close it, EBADF if it does not refer to `chan` any more at the moment when the lock would be set:
// the close of the descriptor has already dropped the locks of the owner.
Result<void> record_lock_set(const Chan& chan, const LockOwner& owner, LockKind kind,
                             ByteRange range, LockWait wait,
                             const LockDescriptor* descriptor = nullptr);
// Removes all record locks of `owner` on the file. Cannot fail.
void record_locks_drop(const Chan& chan, const void* owner);

// Sets the flock of an open file. All descriptors of the open file share this lock. If the call
// changes the kind of the lock and has to wait, it first gives up the old lock. EAGAIN, EINTR,
// ENOLCK. May sleep.
Result<void> open_file_lock_set(Chan& chan, LockKind kind, LockWait wait);
// Removes the flock of an open file whose last reference is gone. May sleep.
void open_file_lock_drop(Chan& chan);

// Makes the cache of locks. Called once, at boot.
void file_lock_init();
