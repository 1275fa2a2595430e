// Snapshots of a trace table, compared with a model of the table's records (SnapshotTest::live_).
#include "trace/record/snapshot.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "fakes/spinlock.h"
#include "fakes/trace_users.h"
#include "trace_world.h"

extern std::atomic<bool> host_signal_waits;

namespace {

constexpr unsigned kCpus = 64;
constexpr TraceOwner kOwner = trace_owner(7);
constexpr uint64_t kPage = 4096;

// The fields of a record that a dump shows.
struct Shown {
  uint64_t size, time;
  uint32_t stack, context, mark, cpu;
  bool not_leak;
  bool operator==(const Shown&) const = default;
};
using Records = std::map<uint64_t, Shown>;  // records of objects, by the objects' addresses

std::ostream& operator<<(std::ostream& out, const Shown& shown) {
  return out << "size " << shown.size << " time " << shown.time << " stack " << shown.stack
             << " context " << shown.context << " mark " << shown.mark << " cpu " << shown.cpu
             << " not_leak " << shown.not_leak;
}

Shown shown(const TraceRecord& record) {
  return {
      record.size(), record.time().value,     number_of(record.stack), number_of(record.context),
      record.mark(), number_of(record.cpu()), record.not_leak()};
}

// Walks over a snapshot twice and returns its records. No object may appear twice in a walk, and
// both walks must have the same order.
Records read(TraceSnapshot& snapshot) {
  std::vector<uint64_t> order[2];
  Records records;
  for (auto& objects : order) {
    records.clear();
    TraceSnapshot::Slice slice;
    EXPECT_TRUE(snapshot.visit(slice, [&](const TraceRecord& record) {
      objects.push_back(record.object());
      EXPECT_TRUE(records.emplace(record.object(), shown(record)).second) << record.object();
    }));
  }
  EXPECT_EQ(order[0], order[1]);
  EXPECT_EQ(records.size(), snapshot.counters().live);
  uint64_t bytes = 0;
  for (const auto& [object, record] : records) bytes += record.size;
  EXPECT_EQ(bytes, snapshot.counters().bytes);
  const TraceCounters& counters = snapshot.counters();
  EXPECT_EQ(counters.seen, counters.recorded + counters.dropped + counters.filtered);
  return records;
}

Records read(TraceTable& table) {
  TraceSnapshot snapshot;
  EXPECT_TRUE(snapshot.open(table).ok());
  return read(snapshot);
}

// Clears the fields `mark` and `not_leak`. These fields may change after a snapshot was opened. If
// there is no memory to copy records, the snapshot shows the new values.
Records unchanging(Records records) {
  for (auto& [object, record] : records) {
    record.mark = 0;
    record.not_leak = false;
  }
  return records;
}

// Returns the objects that visit_standing() finds. The report of a panic uses visit_standing().
std::set<uint64_t> standing(TraceTable& table) {
  std::set<uint64_t> objects, locked;
  for (unsigned shard = 0; shard < table.shards(); shard++) {
    table.visit_standing(shard, [&](const TraceRecord& record) {
      EXPECT_TRUE(objects.insert(record.object()).second);
    });
    EXPECT_TRUE(
        table.try_visit(shard, [&](const TraceRecord& record) { locked.insert(record.object()); }));
  }
  EXPECT_EQ(objects, locked);
  return objects;
}

class SnapshotTest : public testing::Test {
 protected:
  void SetUp() override { table_ = TraceTable::create(kCpus); }
  void TearDown() override {
    TraceWorld::fail_pages(0);
    if (table_) TraceTable::destroy(table_);
    EXPECT_EQ(TraceWorld::pages_out(), 0u);
  }

  bool record(uint64_t object, uint64_t size, uint32_t cpu,
              TraceOwner owner = TraceOwner::kNobody) {
    const uint64_t before = table_->counters().dropped;
    const uint32_t stack = random_() % 20 + 1, context = random_() % 5 + 1;
    coarse_time = random_() >> 28;
    const uint32_t stamp = cpu_stamp(CpuId{cpu}, {coarse_time});
    if (size >= TraceTable::kLargeSize ||
        !table_->record_at_once(object, size, stack, ContextId{context}, stamp,
                                [owner] { return owner; })) {
      table_->record({.object = object,
                      .size = size,
                      .stack = StackId{stack},
                      .context = ContextId{context},
                      .time = {coarse_time},
                      .cpu = CpuId{static_cast<uint32_t>(cpu)},
                      .truncated = false},
                     owner);
    }
    if (table_->counters().dropped != before) return false;
    live_[object] = {size, coarse_time, stack, context, static_cast<uint32_t>(owner), cpu, false};
    return true;
  }
  void forget(uint64_t object, uint32_t cpu) {
    if (!table_->forget_at_once(object, CpuId{cpu})) table_->forget(object, CpuId{cpu});
    live_.erase(object);
  }
  Records current() {
    Records records;
    for (unsigned shard = 0; shard < table_->shards(); shard++) {
      EXPECT_TRUE(table_->try_visit(shard, [&](const TraceRecord& record) {
        EXPECT_TRUE(records.emplace(record.object(), shown(record)).second);
      }));
    }
    return records;
  }
  // Returns one of the live objects; 0 if there are none.
  uint64_t any() {
    if (live_.empty()) return 0;
    const auto at = live_.lower_bound(random_() % live_.rbegin()->first);
    return at->first;
  }
  void step(size_t most);

  TraceTable* table_ = nullptr;
  Records live_;
  std::mt19937_64 random_{1};
};

void SnapshotTest::step(size_t most) {
  const uint32_t cpu = random_() % kCpus;
  const uint64_t what = random_() % 1000, object = any();
  if (what < 2 && random_() % most < 8) {
    table_->clear();
    live_.clear();
  } else if (what < 10) {
    table_->leave(kOwner, what < 6 ? TraceTable::Leave::kKeep : TraceTable::Leave::kClear);
    for (auto at = live_.begin(); at != live_.end();) {
      const bool owned = at->second.mark == static_cast<uint32_t>(kOwner);
      if (owned && what >= 6) {
        at = live_.erase(at);
        continue;
      }
      if (owned) at->second.mark = 0;
      ++at;
    }
  } else if (what < 20) {
    table_->trim();
  } else if (what < 40 && object != 0) {
    table_->note_not_leak(object);
    live_[object].not_leak = true;
  } else if (what < 60 && object != 0) {
    // Cut out the second of at least four pages. The first page stays recorded, and so do the pages
    // from the third on.
    const Shown before = live_[object];
    if (before.mark != static_cast<uint32_t>(kOwner) || before.size < 4 * kPage) return;
    const uint64_t dropped = table_->counters().dropped;
    EXPECT_TRUE(table_->cut(object + kPage, kPage, kOwner));
    if (table_->counters().dropped != dropped) {
      live_ = current();
      return;
    }
    live_[object].size = kPage;
    live_[object + 2 * kPage] = before;
    live_[object + 2 * kPage].size -= 2 * kPage;
    live_[object + 2 * kPage].not_leak = false;
  } else if (object != 0 && random_() % (2 * most) < live_.size()) {
    forget(object, what % 2 == 0 ? live_[object].cpu : cpu);
  } else {
    const uint64_t fresh = 0x400000 + random_() % (1 << 20) * 64 * kPage;
    if (live_.contains(fresh) || live_.contains(fresh + 2 * kPage)) return;
    const bool owned = random_() % 4 == 0;
    const uint64_t size = owned                  ? 4 * kPage
                          : random_() % 100 == 0 ? TraceTable::kLargeSize + random_() % 5
                                                 : random_() % 5000;
    record(fresh, size, cpu, owned ? kOwner : TraceOwner::kNobody);
  }
}

TEST_F(SnapshotTest, ShowsWhatWasLiveWhateverHappensMeanwhile) {
  for (int round = 0; round < 60; round++) {
    const size_t most = round % 3 == 0 ? 20 : 2000;
    for (int i = 0; i < 2000; i++) step(most);
    ASSERT_EQ(read(*table_), live_);
    const Records then = live_;
    {
      TraceSnapshot snapshot;
      ASSERT_TRUE(snapshot.open(*table_).ok());
      for (int part = 0; part < 4; part++) {
        ASSERT_EQ(read(snapshot), then) << round;
        std::set<uint64_t> objects;
        for (const auto& [object, record] : live_) objects.insert(object);
        ASSERT_EQ(standing(*table_), objects);
        for (int i = 0; i < 500; i++) step(most);
      }
      ASSERT_EQ(read(snapshot), then) << round;
    }
    ASSERT_EQ(read(*table_), live_);
  }
}

TEST_F(SnapshotTest, OpensAndShowsAllWhenMemoryIsFull) {
  for (int i = 0; i < 5000; i++) step(2000);
  TraceWorld::fail_pages(100);
  for (uint32_t cpu = 0; cpu < kCpus; cpu++) {
    while (record(0x40000000000 + random_() % (1 << 30) * 64, 8, cpu)) {
    }
  }
  const Records then = live_;
  const uint64_t pages = TraceWorld::pages_out();
  {
    TraceSnapshot snapshot;
    ASSERT_TRUE(snapshot.open(*table_).ok());
    for (int part = 0; part < 4; part++) {
      ASSERT_EQ(unchanging(read(snapshot)), unchanging(then));
      // There is no memory for copies, so these steps also change records of the snapshot.
      for (int i = 0; i < 500; i++) step(4000);
      ASSERT_EQ(unchanging(live_), unchanging(current()));
    }
    // The snapshot still has the records that were freed. So later records can reuse only the slots
    // of records that were made after the snapshot was opened.
    EXPECT_GT(table_->counters().freed, 100u);
  }
  EXPECT_EQ(TraceWorld::pages_out(), pages);
  const uint64_t dropped = table_->counters().dropped;
  EXPECT_GT(dropped, 100u);
  // After the end of the snapshot, the slots of its freed records can be reused.
  const auto spare = then.size() > live_.size() ? then.size() - live_.size() : 0;
  ASSERT_GT(spare, 10u);
  for (uint64_t i = 0; i < spare / 2; i++) ASSERT_TRUE(record(64 * (i + 1), 8, i % kCpus));
  EXPECT_EQ(table_->counters().dropped, dropped);
}

TEST_F(SnapshotTest, WhatIsRecordedAndFreedMeanwhileTakesNoMoreMemory) {
  for (uint64_t i = 1; i <= 1000; i++) record(i * 64, 8, 3);
  const Records then = live_;
  TraceSnapshot snapshot;
  ASSERT_TRUE(snapshot.open(*table_).ok());
  for (uint64_t i = 1; i <= 1000; i++) forget(i * 64, 3);
  uint64_t pages = 0;
  for (uint64_t round = 0; round < 100; round++) {
    for (uint64_t i = 1; i <= 100; i++) record(i * 64, 9, 3);
    for (uint64_t i = 1; i <= 100; i++) forget(i * 64, 3);
    if (round == 0) pages = TraceWorld::pages_out();
  }
  EXPECT_EQ(TraceWorld::pages_out(), pages);
  EXPECT_EQ(read(snapshot), then);
}

TEST_F(SnapshotTest, KeepsWhatItNeedsOfATableThatEnds) {
  for (int i = 0; i < 5000; i++) step(2000);
  const Records then = live_;
  TraceSnapshot snapshot;
  ASSERT_TRUE(snapshot.open(*table_).ok());
  for (int i = 0; i < 1000; i++) step(2000);
  TraceTable::destroy(std::exchange(table_, nullptr));
  EXPECT_EQ(read(snapshot), then);
  EXPECT_GT(TraceWorld::pages_out(), then.size() / 127);
  snapshot.close();
  EXPECT_EQ(TraceWorld::pages_out(), 0u);
  EXPECT_FALSE(snapshot.is_open());
  snapshot.close();
}

TEST_F(SnapshotTest, EmptiedTablesGiveBackWhatTheSnapshotDoesNotNeed) {
  for (uint64_t i = 1; i <= 10'000; i++) record(i * 64, 8, 3);
  const Records then = live_;
  TraceSnapshot snapshot;
  ASSERT_TRUE(snapshot.open(*table_).ok());
  const uint64_t pages = TraceWorld::pages_out();
  for (int round = 0; round < 10; round++) {
    for (uint64_t i = 1; i <= 10'000; i++) record((i + 20'000) * 64, 8, 3);
    table_->clear();
    EXPECT_LE(TraceWorld::pages_out(), pages);
  }
  live_.clear();
  EXPECT_EQ(read(snapshot), then);
  snapshot.close();
  EXPECT_EQ(TraceWorld::pages_out(), (sizeof(TraceTable) + kCpus * 256 + kPage - 1) / kPage);
}

TEST_F(SnapshotTest, ShardsWithoutRecordsGiveTheirMemoryBackButNotToASnapshot) {
  const uint64_t empty = TraceWorld::pages_out();
  record(64, 8, 4);
  const uint64_t one_record = TraceWorld::pages_out();
  ASSERT_GT(one_record, empty);
  for (uint64_t i = 1; i <= 10'000; i++) record((i + 1) * 64, 8, 3);
  const Records then = live_;
  {
    TraceSnapshot snapshot;
    ASSERT_TRUE(snapshot.open(*table_).ok());
    for (uint64_t i = 1; i <= 10'000; i++) forget((i + 1) * 64, 3);
    const uint64_t pages = TraceWorld::pages_out();
    table_->trim();
    EXPECT_EQ(TraceWorld::pages_out(), pages);
    EXPECT_EQ(read(snapshot), then);
  }
  table_->trim();
  EXPECT_EQ(TraceWorld::pages_out(), one_record);
  EXPECT_EQ(read(*table_), live_);
  for (uint64_t i = 1; i <= 100; i++) ASSERT_TRUE(record((i + 1) * 64, 8, 3));
  EXPECT_EQ(read(*table_), live_);
}

TEST_F(SnapshotTest, OneAtATimeAndTheNextCanBeInterrupted) {
  record(64, 8, 3);
  TraceSnapshot first;
  ASSERT_TRUE(first.open(*table_).ok());
  record(128, 8, 3);
  host_signal_waits = true;
  TraceSnapshot second;
  const Result<void> interrupted = second.open(*table_);
  host_signal_waits = false;
  ASSERT_FALSE(interrupted.ok());
  EXPECT_EQ(interrupted.error(), Errno::EINTR);
  EXPECT_FALSE(second.is_open());
  first.close();
  ASSERT_TRUE(second.open(*table_).ok());
  EXPECT_EQ(read(second), live_);
}

TEST_F(SnapshotTest, ATraceThatEndsWhileOneWaitsIsNoMore) {
  record(64, 8, 3);
  TraceSnapshot first, second;
  ASSERT_TRUE(first.open(*table_).ok());
  second.choose(*table_);
  TraceTable::destroy(std::exchange(table_, nullptr));
  const Result<void> opened = second.open();
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.error(), Errno::ENOENT);
  EXPECT_EQ(read(first), live_);
}

// Would find a reset that gives up its numbers before it refuses snapshots: a sweep could then give
// the numbers of the snapshot's records to other stacks.
TEST_F(SnapshotTest, NoneOpensOnceTheTableHoldsItsNumbersNoMore) {
  record(64, 8, 3);
  ASSERT_TRUE(trace_users_add(table_->names()).ok());
  static TraceSnapshot late;
  static Errno error;
  error = {};
  late.choose(*table_);
  at_next_drop([] {
    const Result<void> opened = late.open();
    error = opened.ok() ? Errno{} : opened.error();
  });
  TraceTable::destroy(std::exchange(table_, nullptr));
  EXPECT_EQ(error, Errno::ENOENT);
  EXPECT_FALSE(late.is_open());
}

TEST_F(SnapshotTest, AWalkForMarkingFindsWhatIsHeldAndCopied) {
  for (uint64_t i = 1; i <= 3000; i++) record(i * 64, 8, i % kCpus);
  const Records then = live_;
  TraceSnapshot snapshot;
  ASSERT_TRUE(snapshot.open(*table_).ok());
  for (uint64_t i = 1; i <= 1000; i++) forget(i * 64, i % 5);
  const auto found = [this] {
    Records records;
    table_->visit_slices(
        [&](const TraceRecord& record) { records[record.object()] = shown(record); });
    return records;
  };
  EXPECT_EQ(found(), then);
  table_->clear();
  live_.clear();
  EXPECT_EQ(found(), then);
  record(64 * 5000, 8, 3);
  EXPECT_EQ(found().size(), then.size() + 1);
  snapshot.close();
  EXPECT_EQ(found(), live_);
}

// A large record lies in a page of the snapshot, but is newer, and its second record (Large) lies
// in a newer page, which clear() frees. Would find a walk that reads the second record there.
TEST_F(SnapshotTest, AWalkForMarkingLeavesOutWhatWasClearedAndIsNewer) {
  constexpr uint64_t kFirstPage = TableStore::RecordPage::kRecords - 1;
  for (uint64_t i = 1; i <= kFirstPage; i++) record(i * 64, 8, 0);
  const Records then = live_;
  TraceSnapshot snapshot;
  ASSERT_TRUE(snapshot.open(*table_).ok());
  const uint64_t in_first_page = 64'000, in_second_page = 128'000;
  for (const uint64_t object : {in_first_page, uint64_t{192'000}, in_second_page})
    record(object, 8, 0);
  forget(in_first_page, 0);
  forget(in_second_page, 0);
  // The two records that were freed last: first the one for the size, then the object's.
  record(256'000, TraceTable::kLargeSize, 0);
  table_->clear();
  live_.clear();
  Records found;
  table_->visit_slices([&](const TraceRecord& record) { found[record.object()] = shown(record); });
  EXPECT_EQ(found, then);
}

// During the walk, cut() replaces a record by a copy with a new address. The copy may be at a
// position that the walk has passed, and the walk must visit the copy nevertheless.
TEST_F(SnapshotTest, AWalkForMarkingBeginsAnewWhenARecordIsCopied) {
  for (uint64_t i = 1; i <= 1000; i++) record(i * 64 * kPage, 4 * kPage, 3, kOwner);
  for (const uint64_t at : {1, 500, 999}) {
    std::set<uint64_t> objects;
    uint64_t visited = 0;
    table_->visit_slices([&](const TraceRecord& record) {
      objects.insert(record.object());
      if (++visited == 10) table_->cut(at * 64 * kPage, kPage, kOwner);
    });
    EXPECT_TRUE(objects.contains(at * 64 * kPage + kPage));
  }
}

// The estimate visits a shard in slices. Another CPU empties the shard after the first slice, and
// records other objects.
TEST_F(SnapshotTest, AnEstimateCountsNothingTwiceWhenAShardIsEmptied) {
  static decltype(this) test;
  test = this;
  table_->set_options({.sample = 1});
  for (uint64_t i = 1; i <= 200; i++) record(i * 64, 64, 0);
  const TraceCounters counters = table_->counters();
  at_next_unlock([] {
    for (uint64_t i = 1; i <= 200; i++) test->forget(i * 64, 0);
    test->table_->trim();
    for (uint64_t i = 1; i <= 100; i++) test->record(i * 64, 64, 0);
  });
  EXPECT_EQ(table_->estimate(counters).whole_objects(), 100u);
}

// While a snapshot is open, a record that changes is replaced by a copy, which may come later in
// the walk.
TEST_F(SnapshotTest, AnEstimateCountsNothingTwiceWhenARecordIsCopied) {
  static decltype(this) test;
  test = this;
  table_->set_options({.sample = 1});
  for (uint64_t i = 1; i <= 200; i++) record(i * 64, 64, 0);
  TraceSnapshot snapshot;
  ASSERT_TRUE(snapshot.open(*table_).ok());
  const TraceCounters counters = table_->counters();
  at_next_unlock([] {
    for (uint64_t i = 1; i <= 200; i++) test->table_->note_not_leak(i * 64);
  });
  EXPECT_EQ(table_->estimate(counters).whole_objects(), 200u);
  snapshot.close();
}

TEST_F(SnapshotTest, EachCpuHasAShardOfItsOwn) {
  ASSERT_EQ(table_->shards(), kCpus);
  // Each CPU records two objects, frees one of them, and records this object again. The free leaves
  // a spare record in the CPU's shard. So record_at_once(), which does not allocate memory, can
  // record the object.
  for (uint32_t cpu = 0; cpu < kCpus; cpu++) {
    for (uint64_t i = 1; i <= 2; i++) ASSERT_TRUE(record((cpu * 2 + i) * 64, 8, cpu));
    forget((cpu * 2 + 1) * 64, cpu);
    ASSERT_TRUE(record((cpu * 2 + 1) * 64, 8, cpu));
  }
  for (uint32_t cpu = 0; cpu < kCpus; cpu++) {
    unsigned found = 0;
    ASSERT_TRUE(table_->try_visit(cpu, [&](const TraceRecord& record) {
      EXPECT_EQ(number_of(record.cpu()), cpu);
      found++;
    }));
    EXPECT_EQ(found, 2u);
  }
}

TEST_F(SnapshotTest, ATableHasRoomForTheCpusThatThereAre) {
  const uint64_t before = TraceWorld::pages_out();
  TraceTable* const small = TraceTable::create(6);
  EXPECT_EQ(TraceWorld::pages_out(), before + 1);
  TraceTable::destroy(small);
  EXPECT_EQ(TraceWorld::pages_out(), before);
}

}  // namespace
