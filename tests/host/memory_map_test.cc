// The set of physical addresses that boot makes of the loader's memory map.
#include "core/memory_map_impl.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace {

constexpr uint64_t kGiB = uint64_t{1} << 30;

std::vector<std::pair<uint64_t, uint64_t>> pairs(const MemoryMap& map) {
  std::vector<std::pair<uint64_t, uint64_t>> result;
  for (const MemoryRange& range : map.ranges()) result.emplace_back(range.start.value, range.size);
  return result;
}

using Ranges = std::vector<std::pair<uint64_t, uint64_t>>;

// The map of QEMU's q35 with 9 GiB: 2 GiB lie below 4 GiB, and 7 GiB above.
TEST(MemoryMap, a_hole_below_4_gib_is_not_memory) {
  MemoryMap map;
  map.add(0, 0x9fc00);
  map.add(0x100000, 2 * kGiB - 0x100000);
  map.add(4 * kGiB, 7 * kGiB);
  EXPECT_EQ(map.bytes(), 9 * kGiB - (0x100000 - 0x9f000));
  EXPECT_EQ(map.end(), 11 * kGiB);
  EXPECT_TRUE(map.contains(2 * kGiB - kPageSize, kPageSize));
  EXPECT_FALSE(map.contains(2 * kGiB - kPageSize, 2 * kPageSize));
  EXPECT_FALSE(map.contains(3 * kGiB, kPageSize));
}

TEST(MemoryMap, partial_pages_count_as_absent) {
  MemoryMap map;
  map.add(0x1800, 0x1000);
  EXPECT_EQ(pairs(map), Ranges{});
  map.add(0x1800, 0x3000);
  EXPECT_EQ(pairs(map), (Ranges{{0x2000, 0x2000}}));
  map.remove(0x2fff, 1);
  EXPECT_EQ(pairs(map), (Ranges{{0x3000, 0x1000}}));
}

TEST(MemoryMap, a_range_may_reach_the_end_of_addresses) {
  MemoryMap map;
  map.add(UINT64_MAX - 0x2fff, UINT64_MAX);
  EXPECT_EQ(pairs(map), (Ranges{{UINT64_MAX - 0x2fff, 0x2000}}));
  map.remove(UINT64_MAX - 0x1fff, UINT64_MAX);
  EXPECT_EQ(pairs(map), (Ranges{{UINT64_MAX - 0x2fff, 0x1000}}));
}

TEST(MemoryMap, too_many_ranges_are_left_out) {
  MemoryMap map;
  for (uint64_t i = 0; i < 200; i++) map.add(i * 0x2000, 0x1000);
  EXPECT_EQ(map.bytes(), MemoryMap::kMaxRanges * 0x1000);
  map.add(0x1000, 0x1000);  // joins two ranges
  EXPECT_EQ(map.ranges().size(), MemoryMap::kMaxRanges - 1);
  map.add(0x1000000, 0x5000);
  EXPECT_EQ(map.bytes(), MemoryMap::kMaxRanges * 0x1000 + 0x6000);
  map.remove(0x1001000, 0x1000);  // no room for the upper part
  EXPECT_EQ(map.bytes(), MemoryMap::kMaxRanges * 0x1000 + 0x2000);
}

TEST(MemoryMap, is_the_set_that_a_bit_for_each_page_gives) {
  constexpr uint64_t kPages = 64;
  std::mt19937_64 random(1);
  for (int round = 0; round < 500; round++) {
    MemoryMap map;
    std::vector<bool> pages(kPages);
    for (int step = 0; step < 30; step++) {
      const uint64_t first = random() % kPages, count = random() % (kPages - first + 1);
      const bool is_added = random() % 2;
      for (uint64_t i = first; i < first + count; i++) pages[i] = is_added;
      is_added ? map.add(first * kPageSize, count * kPageSize)
               : map.remove(first * kPageSize, count * kPageSize);
    }
    uint64_t bytes = 0;
    for (uint64_t i = 0; i < kPages; i++) {
      ASSERT_EQ(map.contains(i * kPageSize, kPageSize), pages[i]) << "round " << round;
      bytes += pages[i] ? kPageSize : 0;
    }
    EXPECT_EQ(map.bytes(), bytes);
    for (size_t i = 1; i < map.ranges().size(); i++)
      EXPECT_GT(map.ranges()[i].start.value,
                map.ranges()[i - 1].start.value + map.ranges()[i - 1].size);
  }
}

}  // namespace
