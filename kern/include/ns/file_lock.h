// Locks on files: ranges of bytes that a process has (fcntl), and whole files that an open file has
// (flock). The theory is in file_lock.cc.
#pragma once

#include <cstdint>

#include "lib/result.h"
#include "ns/device.h"

// Bytes `first` to `last` of a file, both included; kLastByte: to the end of whatever size it will
// have.
struct ByteRange {
  static constexpr uint64_t kLastByte = INT64_MAX;
  uint64_t first = 0, last = kLastByte;

  bool overlaps(const ByteRange& other) const { return first <= other.last && other.first <= last; }
  // Whether the two together are one range.
  bool touches(const ByteRange& other) const {
    return overlaps(other) || (last != kLastByte && last + 1 == other.first) ||
           (other.last != kLastByte && other.last + 1 == first);
  }
  bool operator==(const ByteRange&) const = default;
};
// The range that a struct flock says: `length` bytes from `base` + `start`, or before it if
// `length` is negative; 0: all from there on. EINVAL if it begins before the file or numbers run
// over.
Result<ByteRange> byte_range(uint64_t base, int64_t start, int64_t length);

enum class LockKind : uint8_t { kNone, kShared, kExclusive };

// Who has a lock.
struct LockOwner {
  const void* owner = nullptr;  // the descriptor table of a process, or an open file
  uint32_t pid = 0;             // for F_GETLK
};
// What a lock in the way is.
struct FoundLock {
  LockKind kind = LockKind::kNone;  // kNone: there is none
  ByteRange range;
  uint32_t pid = 0;
};

enum class LockWait : uint8_t { kNo, kYes };

// Record locks. `chan` is an open file of a device with one_offset.
//
// The first lock that would keep `owner` from getting this one. May sleep, as all here.
FoundLock record_lock_find(const Chan& chan, const LockOwner& owner, LockKind kind,
                           ByteRange range);
// Gives `owner` a lock of `kind` on the range in place of what it had there; kNone takes it away.
// EAGAIN if another has a lock in the way; when that may be waited for EINTR, and EDEADLK if the
// other waits, directly or not, for a lock of this owner. ENOLCK without memory.
Result<void> record_lock_set(const Chan& chan, const LockOwner& owner, LockKind kind,
                             ByteRange range, LockWait wait);
// Takes away all that `owner` has on the file. Cannot fail.
void record_locks_drop(const Chan& chan, const void* owner);

// The lock of an open file on the whole of its file; all descriptors of the open file share it.
// Changing the kind while others are in the way gives the old one up before it waits. EAGAIN,
// EINTR, ENOLCK.
Result<void> open_file_lock_set(Chan& chan, LockKind kind, LockWait wait);
// The open file goes.
void open_file_lock_drop(Chan& chan);

// The cache of locks. Once, at boot.
void file_lock_init();
