// Locks on files: ranges, splitting and joining of locks, and conflicts.

#include "ns/file_lock.h"
#include "core/ktest.h"
#include "tests/ns_world.h"

namespace {

constexpr uint64_t kEnd = ByteRange::kLastByte;

bool is_range(Result<ByteRange> range, uint64_t first, uint64_t last) {
  return range && *range == ByteRange{first, last};
}

KTEST(file_lock_ranges) {
  EXPECT(is_range(byte_range(0, 0, 0), 0, kEnd));
  EXPECT(is_range(byte_range(100, 5, 10), 105, 114));
  EXPECT(is_range(byte_range(100, -5, 0), 95, kEnd));
  EXPECT(is_range(byte_range(100, 0, -10), 90, 99));
  EXPECT(is_range(byte_range(0, INT64_MAX, 0), kEnd, kEnd));
  EXPECT(is_range(byte_range(0, INT64_MAX - 1, 1), kEnd - 1, kEnd - 1));
  EXPECT(fails_with(Errno::EINVAL, byte_range(0, -1, 1)));
  EXPECT(fails_with(Errno::EINVAL, byte_range(5, 0, -6)));
  EXPECT(fails_with(Errno::EINVAL, byte_range(0, INT64_MAX, 1)));
  EXPECT(fails_with(Errno::EINVAL, byte_range(1, INT64_MAX, 0)));
  EXPECT(fails_with(Errno::EINVAL, byte_range(0, INT64_MIN, INT64_MIN)));
  const ByteRange range{10, 19};
  EXPECT(range.overlaps({19, 30}) && range.overlaps({0, 10}) && !range.overlaps({20, 30}));
  EXPECT(range.touches({20, 30}) && range.touches({0, 9}) && !range.touches({21, 30}));
  EXPECT(!ByteRange({10, kEnd}).touches({0, 8}) && ByteRange({10, kEnd}).touches({0, 9}));
}

struct LockedFile {
  LockedFile() {
    Result<Ref<Chan>> opened =
        path_open(ns.context(), "#tmp/locked", ABI_O_RDWR | ABI_O_CREAT, 0644);
    EXPECT(opened);
    if (opened) chan = opened.take();
  }
  ~LockedFile() { EXPECT(path_remove(ns.context(), "#tmp/locked", false)); }

  Result<void> set(const LockOwner& owner, LockKind kind, uint64_t first, uint64_t last) {
    return record_lock_set(*chan, owner, kind, {first, last}, LockWait::kNo);
  }
  // Finds the first lock of any owner that overlaps the range.
  FoundLock find(uint64_t first, uint64_t last) {
    return record_lock_find(*chan, nobody, LockKind::kExclusive, {first, last});
  }
  bool is(uint64_t first, uint64_t last, LockKind kind, uint64_t from, uint64_t to, uint32_t pid) {
    const FoundLock found = find(first, last);
    return found.kind == kind && found.range == ByteRange{from, to} && found.pid == pid;
  }
  bool is_free(uint64_t first, uint64_t last) { return find(first, last).kind == LockKind::kNone; }

  TestNamespace ns;
  Ref<Chan> chan;
  const LockOwner nobody{};
};

KTEST(file_lock_cuts_and_joins) {
  LiveCounts live;
  LockedFile file;
  if (!file.chan) return;
  const LockOwner a{&file, 1};
  const LockKind exclusive = LockKind::kExclusive, shared = LockKind::kShared;
  EXPECT(file.set(a, exclusive, 10, 19) && file.set(a, exclusive, 30, 39));
  EXPECT(file.set(a, exclusive, 20, 29) && file.is(0, kEnd, exclusive, 10, 39, 1));
  EXPECT(file.set(a, LockKind::kNone, 15, 17));
  EXPECT(file.is(0, kEnd, exclusive, 10, 14, 1) && file.is(15, kEnd, exclusive, 18, 39, 1));
  EXPECT(file.is_free(15, 17));
  EXPECT(file.set(a, shared, 12, 20));
  EXPECT(file.is(0, 11, exclusive, 10, 11, 1) && file.is(12, 20, shared, 12, 20, 1));
  EXPECT(file.is(21, kEnd, exclusive, 21, 39, 1));
  EXPECT(file.set(a, shared, 15, kEnd) && file.is(30, 31, shared, 12, kEnd, 1));
  EXPECT(file.set(a, exclusive, 0, kEnd) && file.is(500, 500, exclusive, 0, kEnd, 1));
  EXPECT(file.set(a, LockKind::kNone, 5, kEnd) && file.is_free(5, kEnd));
  record_locks_drop(*file.chan, &file);
  EXPECT(file.is_free(0, kEnd));
}

KTEST(file_lock_keeps_others_out) {
  LiveCounts live;
  LockedFile file;
  if (!file.chan) return;
  const LockOwner a{&file, 1}, b{&file.chan, 2};
  const LockKind exclusive = LockKind::kExclusive, shared = LockKind::kShared;
  EXPECT(file.set(a, shared, 0, 9) && file.set(b, shared, 5, 14));
  EXPECT(fails_with(Errno::EAGAIN, file.set(a, exclusive, 0, 9)));
  EXPECT(file.set(a, exclusive, 0, 4) && fails_with(Errno::EAGAIN, file.set(b, shared, 4, 4)));
  // The failed calls have changed nothing.
  EXPECT(file.is(0, 4, exclusive, 0, 4, 1));
  // Record locks belong to the file, so they conflict with record locks that were set through
  // another open of the file. open_file_lock_set() does not conflict with record locks.
  Result<Ref<Chan>> again = path_open(file.ns.context(), "#tmp/locked", ABI_O_RDWR, 0);
  EXPECT(again &&
         fails_with(Errno::EAGAIN, record_lock_set(**again, b, exclusive, {0, 0}, LockWait::kNo)));
  EXPECT(again && open_file_lock_set(**again, exclusive, LockWait::kNo));
  EXPECT(fails_with(Errno::EAGAIN, open_file_lock_set(*file.chan, shared, LockWait::kNo)));
  if (again) static_cast<void>(again.take());  // closing the file releases its lock
  EXPECT(open_file_lock_set(*file.chan, shared, LockWait::kNo));
  EXPECT(open_file_lock_set(*file.chan, LockKind::kNone, LockWait::kNo));
  record_locks_drop(*file.chan, a.owner);
  EXPECT(file.is(0, kEnd, shared, 5, 14, 2));
  record_locks_drop(*file.chan, b.owner);
}

}  // namespace
