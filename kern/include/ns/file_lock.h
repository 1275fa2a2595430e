// Locks on files: on ranges of bytes, held by a process (fcntl), and on whole files, held by an
// open file (flock). The theory is in file_lock.cc.
#pragma once

#include <cstdint>

#include "lib/result.h"
#include "ns/device.h"

// Bytes `first` to `last` of a file, inclusive; kLastByte: to the end, even if the file grows.
struct ByteRange {
  static constexpr uint64_t kLastByte = INT64_MAX;
  uint64_t first = 0, last = kLastByte;

  bool overlaps(const ByteRange& other) const { return first <= other.last && other.first <= last; }
  // True if the two overlap or are adjacent.
  bool touches(const ByteRange& other) const {
    return overlaps(other) || (last != kLastByte && last + 1 == other.first) ||
           (other.last != kLastByte && other.last + 1 == first);
  }
  bool operator==(const ByteRange&) const = default;
};
// The range that a struct abi_flock means: `length` bytes from `base` + `start` on, or before that
// position if `length` is negative. `length` 0: everything from that position on. EINVAL if the
// range begins before the file or overflows.
Result<ByteRange> byte_range(uint64_t base, int64_t start, int64_t length);

enum class LockKind : uint8_t { kNone, kShared, kExclusive };

// The owner of a lock.
struct LockOwner {
  const void* owner = nullptr;  // the descriptor table of a process, or an open file
  uint32_t pid = 0;             // the PID that F_GETLK reports
};
// A conflicting lock.
struct FoundLock {
  LockKind kind = LockKind::kNone;  // kNone: there is none
  ByteRange range;
  uint32_t pid = 0;
};

enum class LockWait : uint8_t { kNo, kYes };

// Record locks. `chan` is an open file of a device with one_offset.
//
// Returns the first lock of another owner that conflicts with a lock of `kind` on `range`. All
// functions here may sleep.
FoundLock record_lock_find(const Chan& chan, const LockOwner& owner, LockKind kind,
                           ByteRange range);
// Gives `owner` a lock of `kind` on the range, replacing its locks there; kNone removes them.
// EAGAIN if another owner has a conflicting lock. With kYes, waits instead: EINTR, and EDEADLK if
// the other owner waits, directly or not, for a lock of `owner`. ENOLCK when out of memory.
Result<void> record_lock_set(const Chan& chan, const LockOwner& owner, LockKind kind,
                             ByteRange range, LockWait wait);
// Removes all locks of `owner` on the file. Cannot fail.
void record_locks_drop(const Chan& chan, const void* owner);

// Sets the lock of an open file on its whole file; all descriptors of the open file share it. If a
// change of the kind has to wait, the old lock is given up first. EAGAIN, EINTR, ENOLCK.
Result<void> open_file_lock_set(Chan& chan, LockKind kind, LockWait wait);
// Removes the lock of an open file that ends.
void open_file_lock_drop(Chan& chan);

// Makes the cache of locks. Once, at boot.
void file_lock_init();
