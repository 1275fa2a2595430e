// The ranges of locks on files. tests/programs/filetest/locks.c tests the locks.

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

}  // namespace
