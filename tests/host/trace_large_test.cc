// Records of objects whose size in bytes does not fit into 31 bits (TraceTable::kLargeSize).
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <vector>

#include "table_access.h"
#include "trace/record/table.h"
#include "trace_world.h"

namespace {

constexpr uint64_t kGiB = uint64_t{1} << 30;
constexpr TraceOwner kOwner = trace_owner(7), kOtherOwner = trace_owner(8);

TraceEvent event(uint64_t object, uint64_t size, uint64_t time = 0) {
  return {.object = object,
          .size = size,
          .stack = StackId{1},
          .context = ContextId{1},
          .time = {time},
          .cpu = CpuId{3},
          .truncated = false};
}

class TraceLargeTest : public testing::Test {
 protected:
  void SetUp() override {
    table_ = TraceTable::create(64);
    ASSERT_NE(table_, nullptr);
  }
  void TearDown() override {
    TraceTable::destroy(table_);
    EXPECT_EQ(TraceWorld::pages_out(), 0u);
  }

  // Returns a copy of all records. Checks that the counter `bytes` is the sum of the records'
  // sizes.
  std::vector<TraceRecord> copy() {
    TraceCounters counters;
    std::vector<TraceRecord> records = copy_of(*table_, &counters);
    EXPECT_EQ(counters.seen, counters.recorded + counters.dropped);
    uint64_t bytes = 0;
    for (const TraceRecord& record : records) bytes += record.size();
    EXPECT_EQ(counters.bytes, bytes);
    return records;
  }

  TraceTable* table_ = nullptr;
};

TEST_F(TraceLargeTest, SizesThatARecordCannotHoldAreDropped) {
  table_->record(event(0x1000, TraceTable::kMaxSize));
  table_->record(event(0x2000, TraceTable::kMaxSize + 1));
  ASSERT_EQ(copy().size(), 1u);
  EXPECT_EQ(table_->counters().bytes, TraceTable::kMaxSize);
  EXPECT_EQ(table_->counters().dropped, 1u);
}

// A large record takes two slots (TableStore::Large). After a free, both slots are reused. If each
// of 10,000 large records is freed before the next one is made, all of them take no more pages
// than the first ten.
TEST_F(TraceLargeTest, TakeNoMoreMemoryForBeingMany) {
  table_->record(event(0x1000, 5 * TraceTable::kLargeSize));
  uint64_t pages = 0;
  for (uint64_t i = 0; i < 10'000; i++) {
    if (i == 10) pages = TraceWorld::pages_out();
    table_->record(event(0x2000, TraceTable::kLargeSize + i));
    // forget_at_once() always returns false while the CPU's shard has large records.
    EXPECT_FALSE(table_->forget_at_once(0x2000, CpuId{3}));
    table_->forget(0x2000, CpuId{3});
    table_->record(event(0x3000, 7));  // reuses the slot of the large record
    EXPECT_EQ(table_->counters().bytes, 5 * TraceTable::kLargeSize + 7);
    table_->forget(0x3000, CpuId{3});
  }
  EXPECT_EQ(TraceWorld::pages_out(), pages);
}

// The two slots of a freed large record are reused for small records, and for the first or second
// part of large records. Each live object must have the size with which it was recorded last.
TEST_F(TraceLargeTest, AreAsLargeAsTheyWereRecordedLast) {
  std::mt19937_64 random(1);
  std::map<uint64_t, uint64_t> expected;  // for each live object: its size in bytes
  for (unsigned step = 0; step < 20'000; step++) {
    const uint64_t object = (1 + random() % 200) * 0x1000;
    if (expected.erase(object)) {
      table_->forget(object, CpuId{3});
    } else {
      const uint64_t size = random() % 4 == 0 ? 7 : TraceTable::kLargeSize + step;
      table_->record(event(object, size));
      expected[object] = size;
    }
    if (step % 100 != 0) continue;
    ASSERT_EQ(table_->counters().live, expected.size());
    for (const TraceRecord& record : copy()) ASSERT_EQ(record.size(), expected[record.object()]);
  }
}

TEST_F(TraceLargeTest, RangesAreCut) {
  const uint64_t from = kGiB, time = uint64_t{3} << kEpochShift;
  table_->record(event(from, 20 * kGiB, time), kOwner);
  using Sizes = std::map<uint64_t, uint64_t>;
  const auto sizes = [&] {
    Sizes sizes;
    for (const TraceRecord& record : copy()) {
      sizes[(record.object() - from) / kGiB] = record.size() / kGiB;
      EXPECT_EQ(record.time().value, time);
    }
    return sizes;
  };
  EXPECT_TRUE(table_->cut(from + 19 * kGiB, kGiB, kOwner));
  EXPECT_EQ(sizes(), (Sizes{{0, 19}}));
  EXPECT_TRUE(table_->cut(from + 9 * kGiB, kGiB, kOwner));
  EXPECT_EQ(sizes(), (Sizes{{0, 9}, {10, 9}}));
  EXPECT_TRUE(table_->cut(from + 2 * kGiB, kGiB, kOwner));
  EXPECT_EQ(sizes(), (Sizes{{0, 2}, {3, 6}, {10, 9}}));
  EXPECT_TRUE(table_->cut(from + kGiB, 30 * kGiB, kOwner));
  EXPECT_EQ(sizes(), (Sizes{{0, 1}}));
}

// When cut() gets exactly the range of a record, it finds the record by its hash. With a walk over
// all records for each cut(), this test would take much longer.
TEST_F(TraceLargeTest, ManyRangesAreCutOneByOne) {
  constexpr uint64_t kRanges = 4'000, kSize = 6 * kGiB;
  const auto address = [](uint64_t i) { return (8 * i + 4) * kGiB; };
  // Between the large records are small records of another owner, and some free slots.
  for (uint64_t i = 0; i < kRanges; i++) {
    table_->record(event(i + 1, 7), kOtherOwner);
    table_->record(event(address(i), kSize), kOwner);
    if (i % 3 == 0) table_->forget(i + 1, CpuId{3});
  }
  const uint64_t small = table_->counters().live - kRanges;
  for (uint64_t left = kRanges; left > 0; left--) {
    ASSERT_EQ(table_->counters().live, small + left);
    ASSERT_EQ(table_->counters().bytes, small * 7 + left * kSize);
    // The order of the cuts differs from the order of the records.
    ASSERT_TRUE(table_->cut(address(left * 1'237 % kRanges), kSize, kOwner)) << left;
  }
  for (const TraceRecord& record : copy()) EXPECT_EQ(record.size(), 7u);
}

}  // namespace
