#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <thread>
#include <unordered_map>
#include <vector>

#include "table_access.h"
#include "trace/record/table.h"
#include "trace_world.h"

namespace {

// An event of which only the object matters.
TraceEvent small_event(uint64_t object) {
  return {.object = object,
          .size = 1,
          .stack = StackId{1},
          .context = ContextId{1},
          .time = {},
          .cpu = CpuId{0},
          .truncated = false};
}

// Returns a random size for an object. About half of the sizes are near TraceTable::kLargeSize. If
// an object has kLargeSize bytes or more, its record takes two slots.
uint64_t large_size(std::mt19937_64& random) {
  const uint64_t near = TraceTable::kLargeSize - 1 + random() % 3;
  return random() % 2 == 0 ? near : random() & TraceTable::kMaxSize;
}

struct Expected {
  TraceEvent event;
  uint32_t mark;
};

// The records and counters that the table must have. Each operation on the table is also done on
// the model.
struct Model {
  std::unordered_map<uint64_t, Expected> live;
  TraceCounters counters = {};
};

void expect_identities(const TraceCounters& counters) {
  ASSERT_EQ(counters.seen, counters.recorded + counters.dropped + counters.filtered);
  ASSERT_EQ(counters.recorded, counters.freed + counters.cleared + counters.live);
}

void expect_equal(TraceTable& table, const Model& model) {
  TraceCounters counters;
  const std::vector<TraceRecord> records = copy_of(table, &counters);
  ASSERT_NO_FATAL_FAILURE(expect_identities(counters));
  ASSERT_EQ(counters.seen, model.counters.seen);
  ASSERT_EQ(counters.recorded, model.counters.recorded);
  ASSERT_EQ(counters.dropped, model.counters.dropped);
  ASSERT_EQ(counters.filtered, model.counters.filtered);
  ASSERT_EQ(counters.freed, model.counters.freed);
  ASSERT_EQ(counters.cleared, model.counters.cleared);
  ASSERT_EQ(counters.unmatched, model.counters.unmatched);
  ASSERT_EQ(counters.stacks_lost, model.counters.stacks_lost);
  ASSERT_EQ(counters.contexts_lost, model.counters.contexts_lost);
  ASSERT_EQ(counters.truncated, model.counters.truncated);
  ASSERT_EQ(counters.live, model.live.size());
  ASSERT_EQ(records.size(), model.live.size());
  uint64_t bytes = 0;
  for (const TraceRecord& record : records) {
    const auto at = model.live.find(record.object());
    ASSERT_NE(at, model.live.end());
    const auto& [event, mark] = at->second;
    bytes += event.size;
    ASSERT_EQ(record.size(), event.size);
    ASSERT_EQ(record.stack, event.stack);
    ASSERT_EQ(record.context, event.context);
    ASSERT_EQ(record.time(), event.time);
    ASSERT_EQ(record.cpu(), event.cpu);
    ASSERT_EQ(record.mark(), mark);
  }
  ASSERT_EQ(counters.bytes, bytes);
}

class TraceTableTest : public testing::Test {
 protected:
  void SetUp() override {
    table_ = TraceTable::create(64);
    ASSERT_NE(table_, nullptr);
  }
  void TearDown() override {
    TraceWorld::fail_pages(0);
    TraceTable::destroy(table_);
    EXPECT_EQ(TraceWorld::pages_out(), 0u);
  }

  // Records an event in the table and in the model. If the table counts the event as dropped, the
  // model counts it as dropped, too, because the model cannot know which allocations fail.
  void record(Model& model, const TraceEvent& event) {
    const uint64_t dropped = table_->counters().dropped;
    ::record(*table_, event);
    model.counters.seen++;
    if (table_->counters().dropped != dropped) {
      model.counters.dropped++;
      return;
    }
    model.counters.recorded++;
    model.counters.stacks_lost += event.stack == StackId::kNone;
    model.counters.contexts_lost += event.context == ContextId::kNone;
    model.counters.truncated += event.truncated;
    model.live[event.object] = {event, table_->mark()};
  }
  // Frees the object in the table and in the model, on a CPU that changes from call to call.
  void forget(Model& model, uint64_t object) {
    ::forget(*table_, object, cpu_ = (cpu_ * 5 + 1) % 64);
    if (model.live.erase(object) > 0) {
      model.counters.freed++;
    } else {
      model.counters.unmatched++;
    }
  }

  // Makes `operations` random operations on the table and on a model, with about `most` live
  // objects at a time. Compares the table with the model after each 1 + most / 4 operations.
  void run(unsigned seed, int operations, size_t most, bool failures) {
    std::mt19937_64 random(seed);
    Model model;
    std::vector<uint64_t> objects;
    for (int i = 0; i < operations; i++) {
      if (failures && i % 500 == 0)
        TraceWorld::fail_pages(random() % 3 == 0 ? 100 : random() % 2 == 0 ? 0 : 60);
      const unsigned what = random() % 1000;
      if (what == 0 && random() % (most / 8 + 1) == 0) {
        table_->clear();
        model.counters.cleared += model.live.size();
        model.live.clear();
        objects.clear();
      } else if (what == 1) {
        table_->next_mark();
      } else if (what >= 20 && what < 120) {
        // An object that the filter excludes has no record. Its free counts as unmatched.
        const uint64_t object = 0xffff900000000000 + random() % most * 64;
        if (random() % 2 == 0) {
          table_->filter(CpuId{static_cast<uint32_t>(object / 64 % 64)});
          model.counters.seen++;
          model.counters.filtered++;
        } else {
          forget(model, object);
        }
      } else if (what < 20) {
        forget(model, (random() & 0x7ffffffffff8) | 0xffff800000000000);
      } else if (!objects.empty() && random() % (2 * most) < objects.size()) {
        const size_t index = random() % objects.size();
        forget(model, objects[index]);
        objects[index] = objects.back();
        objects.pop_back();
      } else {
        const uint64_t object = 0xffff800000000000 + random() % (16 * most) * 64;
        if (model.live.contains(object)) continue;
        record(model, {.object = object,
                       .size = random() % 50 == 0 ? large_size(random) : random() % 5000,
                       .stack = StackId{static_cast<uint32_t>(random() % 20)},
                       .context = ContextId{static_cast<uint32_t>(random() % 5)},
                       .time = random() >> 28,  // milliseconds: up to two years
                       .cpu = CpuId{static_cast<uint32_t>(random() % 64)},
                       .truncated = random() % 8 == 0});
        objects.push_back(object);
      }
      if (i % (1 + most / 4) == 0) {
        ASSERT_NO_FATAL_FAILURE(expect_equal(*table_, model));
      }
    }
    ASSERT_NO_FATAL_FAILURE(expect_equal(*table_, model));
  }

  TraceTable* table_ = nullptr;
  uint32_t cpu_ = 0;
};

TEST_F(TraceTableTest, ObjectsThatARecordCannotHoldAreDropped) {
  const uint64_t object = 0x1000;
  const auto event = [](uint64_t object) -> TraceEvent {
    return {.object = object,
            .size = 8,
            .stack = StackId{1},
            .context = ContextId{1},
            .time = {},
            .cpu = CpuId{3},
            .truncated = false};
  };
  table_->record(event(object));
  table_->record(event(object), TraceOwner{7});
  TraceCounters counters;
  uint64_t refused = 0;
  // These addresses are not canonical. They differ from the recorded object in one upper bit only.
  for (const uint64_t above : {uint64_t{1} << 47, uint64_t{1} << 48, uint64_t{1} << 63}) {
    refused++;
    table_->record(event(object | above));
    table_->forget(object | above, CpuId{3});
    EXPECT_FALSE(table_->forget_of(TraceOwner{7}, object | above, CpuId{3}));
    counters = table_->counters();
    EXPECT_EQ(counters.dropped, refused);
    EXPECT_EQ(counters.unmatched, 2 * refused);
    EXPECT_EQ(counters.live, 2u);
    ASSERT_NO_FATAL_FAILURE(expect_identities(counters));
  }
  EXPECT_TRUE(table_->forget_of(TraceOwner{7}, object, CpuId{3}));
  table_->forget(object, CpuId{3});
  // The upper half of the address space begins at -2^47. This address is in the upper half.
  table_->record(event(object - (uint64_t{1} << 47)));
  EXPECT_EQ(copy_of(*table_, &counters).at(0).object(), 0xffff800000001000);
  EXPECT_EQ(counters.live, 1u);
}

TEST_F(TraceTableTest, NotesWhatStays) {
  const auto record_all = [this] {
    for (uint64_t i = 1; i <= 1000; i++) {
      table_->record({.object = i * 64,
                      .size = 1,
                      .stack = StackId{1},
                      .context = ContextId{1},
                      .time = {},
                      .cpu = CpuId{static_cast<uint32_t>(i % 32)},
                      .truncated = false});
    }
  };
  record_all();
  for (uint64_t i = 1; i <= 1000; i += 10) table_->note_not_leak(i * 64);
  // Objects without a record, and addresses that cannot have one, are ignored.
  table_->note_not_leak(64 * 2000);
  table_->note_not_leak(64 | uint64_t{1} << 48);
  TraceCounters counters;
  for (const TraceRecord& record : copy_of(*table_, &counters)) {
    EXPECT_EQ(record.not_leak(), record.object() / 64 % 10 == 1) << record.object();
    EXPECT_EQ(number_of(record.cpu()), record.object() / 64 % 32);
  }
  // A new record of the same object does not have the flag not_leak of the freed record.
  for (uint64_t i = 1; i <= 1000; i++) table_->forget(i * 64, CpuId{static_cast<uint32_t>(i % 32)});
  record_all();
  for (const TraceRecord& record : copy_of(*table_, &counters)) EXPECT_FALSE(record.not_leak());
  ASSERT_NO_FATAL_FAILURE(expect_identities(counters));
}

// The upper bits of a time are its epoch. A hook takes the epoch from the CPU's stamp. When an
// epoch has just begun, the stamp may still have the previous epoch. The recorded time must be
// right nevertheless.
TEST_F(TraceTableTest, TimesAreRightWhenAnEpochHasJustBegun) {
  const uint64_t epoch = uint64_t{1} << kEpochShift;
  uint64_t object = 0;
  std::map<uint64_t, uint64_t> expected;
  for (uint64_t i = 1; i <= 3000; i += i < 4 ? 1 : 500) {
    for (const uint64_t time : {i * epoch - 1, i * epoch, i * epoch + 1}) {
      for (const uint64_t seen : {time, i * epoch - 1}) {
        if (seen > time || time >> kEpochShift >= 1 << (kStampBits - kStampCpuBits)) continue;
        object += 64;
        coarse_time = time;
        const uint32_t stamp = cpu_stamp(CpuId{5}, {seen});
        if (!table_->record_at_once(object, 1, 1, ContextId{1}, stamp)) {
          // record() and the forget() below leave a free record for the next record_at_once().
          table_->record({.object = object,
                          .size = 1,
                          .stack = StackId{1},
                          .context = ContextId{1},
                          .time = {time},
                          .cpu = CpuId{5},
                          .truncated = false});
          table_->forget(object, CpuId{5});
          if (!table_->record_at_once(object, 1, 1, ContextId{1}, stamp)) continue;
        }
        expected[object] = time;
      }
    }
  }
  EXPECT_GT(expected.size(), 20u);
  TraceCounters counters;
  for (const TraceRecord& record : copy_of(*table_, &counters)) {
    EXPECT_EQ(record.time().value, expected.at(record.object()));
    EXPECT_EQ(record.cpu(), CpuId{5});
  }
}

TEST_F(TraceTableTest, AgreesWithAModelWhileSmall) {
  run(1, 20'000, 10, false);
}

TEST_F(TraceTableTest, AgreesWithAModelWhileItGrows) {
  run(2, 200'000, 20'000, false);
}

TEST_F(TraceTableTest, LosesNothingSilentlyWithoutMemory) {
  run(3, 60'000, 2'000, true);
  EXPECT_GT(table_->counters().dropped, 0u);
  EXPECT_GT(table_->counters().recorded, 0u);
}

TEST_F(TraceTableTest, WithoutAnyMemoryEverythingIsDroppedAndCounted) {
  TraceWorld::fail_pages(100);
  for (uint64_t i = 1; i <= 1000; i++) {
    table_->record(small_event(i * 4096));
  }
  for (uint64_t i = 1; i <= 1000; i++)
    table_->forget(i * 4096, CpuId{static_cast<uint32_t>(i % 3)});
  const TraceCounters counters = table_->counters();
  EXPECT_EQ(counters.seen, 1000u);
  EXPECT_EQ(counters.dropped, 1000u);
  EXPECT_EQ(counters.unmatched, 1000u);
  EXPECT_EQ(counters.live, 0u);
}

// Would find a table that gives up while a shard has a record, or that drops without counting.
TEST_F(TraceTableTest, IsFullOnlyIfNoCpuHasAFreeRecord) {
  const CpuId cpu{1};
  uint64_t used = 1;
  table_->record({.object = used * 4096, .size = 1, .cpu = cpu});
  TraceWorld::fail_pages(100);
  while (!table_->drop_if_full(cpu)) {
    ASSERT_EQ(table_->counters().dropped, 0u) << used;
    table_->record({.object = ++used * 4096, .size = 1, .cpu = cpu});
  }
  EXPECT_GT(used, 100u);
  EXPECT_EQ(table_->counters().live, used) << "each was recorded";
  EXPECT_EQ(table_->counters().dropped, 1u);
  table_->forget(4096, cpu);
  for (const CpuId asking : {cpu, CpuId{0}}) EXPECT_FALSE(table_->drop_if_full(asking));
  EXPECT_EQ(table_->counters().dropped, 1u);
}

TEST_F(TraceTableTest, WithoutMemoryACpuUsesTheRecordsThatAnotherHasFreed) {
  const auto record_on = [&](uint64_t i, uint32_t cpu) {
    table_->record({.object = i * 4096,
                    .size = 1,
                    .stack = StackId{1},
                    .context = ContextId{1},
                    .time = {},
                    .cpu = CpuId{cpu},
                    .truncated = false});
  };
  for (uint64_t i = 1; i <= 10; i++) record_on(i, 0);
  TraceWorld::fail_pages(100);
  for (uint64_t i = 1; i <= 10; i++) table_->forget(i * 4096, CpuId{0});
  for (uint64_t i = 1001; i <= 1010; i++) record_on(i, 5);
  EXPECT_EQ(table_->counters().dropped, 0u);
  EXPECT_EQ(table_->counters().live, 10u);
  for (uint64_t i = 1001; i <= 1010; i++) table_->forget(i * 4096, CpuId{i % 2 == 0 ? 5u : 7u});
  EXPECT_EQ(table_->counters().unmatched, 0u);
  EXPECT_EQ(table_->counters().live, 0u);
}

// The objects of a cache have addresses at regular distances. With each distance, the table must
// find all objects and take at most 48 bytes for an object.
TEST_F(TraceTableTest, TakesAtMost48BytesForAnObjectWhateverTheStride) {
  for (const uint64_t stride : {16, 64, 192, 4096, 8192, 1 << 20, 1 << 30}) {
    const uint64_t before = TraceWorld::pages_out();
    constexpr uint64_t kObjects = 50'000;
    for (uint64_t i = 1; i <= kObjects; i++) {
      const uint64_t object = (0xffff800000000000 + i * stride) << 16 >> 16 | 0xffff800000000000;
      table_->record(small_event(object));
    }
    EXPECT_LE((TraceWorld::pages_out() - before) * 4096, kObjects * 48) << "stride " << stride;
    for (uint64_t i = 1; i <= kObjects; i++) {
      table_->forget((0xffff800000000000 + i * stride) << 16 >> 16 | 0xffff800000000000, CpuId{0});
    }
    ASSERT_EQ(table_->counters().live, 0u) << "stride " << stride;
    table_->clear();
  }
  EXPECT_EQ(table_->counters().unmatched, 0u);
}

// The buckets are in segments of one page each, and a directory has the pointers to the segments.
// This test makes so many records that the pointers do not fit into a directory of one page. Some
// allocations of pages fail, and the test repeats record() until it succeeds.
TEST_F(TraceTableTest, BucketsStayAsManyAsRecords) {
  constexpr uint64_t kObjects = 600'000;
  TraceTable* const table = TraceTable::create(1);
  const auto object = [](uint64_t i) { return 0xffff800000000000 + i * 64; };
  for (uint64_t i = 1; i <= kObjects; i++) {
    TraceWorld::fail_pages(i % 3000 < 1000 ? 40 : 0);
    do {
      table->record(small_event(object(i)));
    } while (table->counters().live != i);
  }
  TraceWorld::fail_pages(0);
  // A record takes 32.25 bytes. There is about one bucket, of 8 bytes, for each record.
  const double bytes = static_cast<double>(TraceWorld::pages_out()) * 4096 / kObjects;
  EXPECT_GT(bytes, 32.25 + 7.4);
  EXPECT_LT(bytes, 32.25 + 8);
  for (uint64_t i = 1; i <= kObjects; i += 2)
    ASSERT_TRUE(table->forget_at_once(object(i), CpuId{0}));
  table->clear();
  EXPECT_EQ(table->counters().cleared, kObjects / 2);
  EXPECT_EQ(table->counters().unmatched, 0u);
  TraceTable::destroy(table);
}

// Each object is freed on another CPU than the one on which it was recorded.
TEST_F(TraceTableTest, AnyCpuFindsTheRecordsOfAny) {
  constexpr uint64_t kObjects = 20'000;
  const auto object = [](uint64_t i) { return 0xffff800000000000 + i * 64; };
  for (const bool owned : {false, true}) {
    for (uint64_t i = 0; i < kObjects; i++) {
      const TraceEvent event = {.object = object(i),
                                .size = 1,
                                .stack = StackId{1},
                                .context = ContextId{1},
                                .time = {},
                                .cpu = CpuId{static_cast<uint32_t>(i % 64)},
                                .truncated = false};
      if (owned) {
        table_->record(event, static_cast<TraceOwner>(i % 5));
      } else {
        table_->record(event);
      }
    }
    for (uint64_t i = 0; i < kObjects; i++) {
      const auto cpu = static_cast<uint32_t>((i * 7 + 1) % 64);
      if (owned) {
        EXPECT_FALSE(table_->forget_of(TraceOwner{5}, object(i), CpuId{cpu})) << "it is another's";
        EXPECT_TRUE(table_->forget_of(static_cast<TraceOwner>(i % 5), object(i), CpuId{cpu}));
      } else {
        ::forget(*table_, object(i), cpu);
      }
    }
    EXPECT_EQ(table_->counters().live, 0u);
    EXPECT_EQ(table_->counters().unmatched, owned ? kObjects : 0);
  }
}

TEST_F(TraceTableTest, ObjectsNeedNotBeMemory) {
  for (const uint64_t object :
       {uint64_t{1}, uint64_t{42}, uint64_t{0x7fff'ffff'f000}, uint64_t{0xffff'c000'0000'1000}}) {
    table_->record({.object = object,
                    .size = 7,
                    .stack = StackId{1},
                    .context = ContextId{1},
                    .time = {},
                    .cpu = CpuId{63},
                    .truncated = false});
    TraceCounters counters;
    const std::vector<TraceRecord> records = copy_of(*table_, &counters);
    ASSERT_EQ(records.size(), 1u);
    EXPECT_EQ(records[0].object(), object);
    table_->forget(object, CpuId{0});
  }
  EXPECT_EQ(table_->counters().freed, 4u);
}

TEST_F(TraceTableTest, EstimatesWhatItsLiveRecordsStandFor) {
  const auto estimate = [&] { return table_->estimate(table_->counters()); };
  for (const uint64_t object : {0x1000, 0x2000, 0x3000}) {
    table_->record({.object = object,
                    .size = 64,
                    .stack = StackId{1},
                    .context = ContextId{1},
                    .time = {},
                    .cpu = CpuId{0},
                    .truncated = false});
  }
  table_->record({.object = 0x4000,
                  .size = 50'000'000,
                  .stack = StackId{1},
                  .context = ContextId{1},
                  .time = {},
                  .cpu = CpuId{0},
                  .truncated = false});
  table_->record({.object = 0x5000,
                  .size = 64,
                  .stack = StackId{1},
                  .context = ContextId{1},
                  .time = {},
                  .cpu = CpuId{0},
                  .truncated = false});
  table_->forget(0x2000, CpuId{1});
  EXPECT_EQ(estimate().whole_bytes(), 50'000'192u);
  EXPECT_EQ(estimate().whole_objects(), 4u);
  table_->set_options({.sample = 1'000'000});
  EXPECT_EQ(estimate().whole_bytes(), 53'000'096u)
      << "three times a rate and half a size, and the large one";
  EXPECT_EQ(estimate().whole_objects(), 46'878u) << "three times 15625.5, and one";
  table_->forget(0x4000, CpuId{17});
  EXPECT_EQ(estimate().whole_bytes(), 3'000'096u);
  table_->clear();
  EXPECT_EQ(estimate().whole_bytes(), 0u);
  EXPECT_EQ(estimate().whole_objects(), 0u);
}

// Would find a trace with a filter that counts each allocation of size 0 as filtered, although the
// filter admits it. Sampling by bytes never takes size 0.
TEST_F(TraceTableTest, TheFiltersDecideAboutSizeZero) {
  table_->set_options({.pid = 7});
  EXPECT_FALSE(table_->passes_over(0, CpuId{0}));
  EXPECT_FALSE(table_->passes_over(64, CpuId{0}));
  table_->set_options({.sample = 1'000'000});
  table_->seed_samplers(1);
  EXPECT_TRUE(table_->passes_over(0, CpuId{0}));
}

TEST_F(TraceTableTest, WhatIsFilteredIsCountedAndTakesNoMemory) {
  TraceWorld::fail_pages(100);
  for (uint64_t i = 1; i <= 1000; i++) table_->filter(CpuId{static_cast<uint32_t>(i % 64)});
  for (uint64_t i = 1; i <= 1000; i++) table_->forget(i * 64, CpuId{static_cast<uint32_t>(i % 64)});
  const TraceCounters counters = table_->counters();
  EXPECT_EQ(counters.seen, 1000u);
  EXPECT_EQ(counters.filtered, 1000u);
  EXPECT_EQ(counters.dropped, 0u);
  EXPECT_EQ(counters.unmatched, 1000u);
  EXPECT_EQ(counters.live, 0u);
}

TEST_F(TraceTableTest, IdentitiesHoldAtEveryMomentUnderLoad) {
  constexpr unsigned kThreads = 3;
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  std::vector<size_t> left(kThreads);
  for (unsigned t = 0; t < kThreads; t++) {
    threads.emplace_back([this, t, &left] {
      std::mt19937_64 random(t);
      std::vector<uint64_t> mine;
      for (int i = 0; i < 30'000; i++) {
        if (random() % 8 == 0) table_->filter(CpuId{t});
        if (!mine.empty() && random() % 100 < 45) {
          ::forget(*table_, mine.back(), t);
          mine.pop_back();
        } else {
          // Each thread has its own addresses, interleaved with those of other threads.
          const uint64_t object = 0xffff800000000000 + (uint64_t(i) * kThreads + t + 1) * 64;
          ::record(*table_, {.object = object,
                             .size = 64,
                             .stack = StackId{t + 1},
                             .context = ContextId{1},
                             .time = {},
                             .cpu = CpuId{static_cast<uint32_t>(t)},
                             .truncated = false});
          mine.push_back(object);
        }
      }
      left[t] = mine.size();
    });
  }
  std::thread reader([&] {
    while (!done) {
      TraceCounters counters;
      const std::vector<TraceRecord> records = copy_of(*table_, &counters);
      if (counters.live != records.size() || counters.bytes != 64 * records.size()) ADD_FAILURE();
      expect_identities(counters);
    }
  });
  for (std::thread& thread : threads) thread.join();
  done = true;
  reader.join();
  TraceCounters counters;
  const std::vector<TraceRecord> records = copy_of(*table_, &counters);
  std::vector<size_t> found(kThreads);
  for (const TraceRecord& record : records) found[number_of(record.cpu())]++;
  EXPECT_EQ(found, left);
  EXPECT_EQ(counters.unmatched, 0u);
}

}  // namespace
