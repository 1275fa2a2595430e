// Slow readers visit snapshots of a table while other threads record objects in the table, free
// objects and clear the table. Runs under ThreadSanitizer.
#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <random>
#include <thread>
#include <unordered_map>
#include <vector>

#include "trace/record/snapshot.h"
#include "trace_world.h"

namespace {

constexpr unsigned kWriters = 4, kReaders = 2;

// All fields of a record are computed from the object's address, so readers can check them.
TraceEvent event_of(uint64_t object, unsigned cpu) {
  return {.object = object,
          .size = object % 1000003 + (object % (64 * 512) == 0 ? TraceTable::kLargeSize : 0),
          .stack = StackId{static_cast<uint32_t>(object >> 6) % (1u << kNumberBits)},
          .context = ContextId{(static_cast<uint32_t>(object >> 7) | 1) % (1u << kNumberBits)},
          .time = {5},
          .cpu = CpuId{static_cast<uint32_t>(cpu)},
          .truncated = false};
}

void record(TraceTable& table, const TraceEvent& event) {
  if (event.size >= TraceTable::kLargeSize ||
      !table.record_at_once(event.object, event.size, number_of(event.stack), event.context,
                            cpu_stamp(event.cpu, event.time)))
    table.record(event);
}

// A table and the state that the threads share. Each slot of `out` is 0 or a recorded object. Any
// writer may free that object. The other members are counters: `running` counts the writers that
// have not ended, `wrong` the errors, and `snapshots` the snapshots that were read. `held` counts
// the records that a reader found in its snapshot after they had left the table.
struct World {
  TraceTable* table = TraceTable::create(kWriters);
  std::vector<std::atomic<uint64_t>> out = std::vector<std::atomic<uint64_t>>(3000);
  std::atomic<unsigned> running{kWriters};
  std::atomic<uint64_t> wrong{0}, snapshots{0}, held{0};
};

void write(World& world, unsigned cpu, int operations) {
  std::minstd_rand random(cpu + 1);
  uint64_t next = (cpu + 1) * uint64_t{1} << 32;
  for (int i = 0; i < operations; i++) {
    const uint64_t object = next += 64;
    record(*world.table, event_of(object, cpu));
    const uint64_t other = world.out[random() % world.out.size()].exchange(object);
    if (other != 0 && !world.table->forget_at_once(other, CpuId{cpu}) &&
        !world.table->forget_elsewhere(other, CpuId{cpu}))
      world.table->forget(other, CpuId{cpu});
  }
  world.running--;
}

void read_once(World& world, unsigned reader) {
  TraceSnapshot snapshot;
  if (!snapshot.open(*world.table)) world.wrong++;
  std::unordered_map<uint64_t, unsigned> seen;
  for (unsigned pass = 0; pass < 3; pass++) {
    uint64_t bytes = 0, count = 0;
    TraceSnapshot::Slice slice;
    snapshot.visit(slice, [&](const TraceRecord& record) {
      const TraceEvent event = event_of(record.object(), number_of(record.cpu()));
      if (record.size() != event.size || record.stack != event.stack ||
          record.context != event.context)
        world.wrong++;
      if (seen[record.object()]++ != pass) world.wrong++;
      bytes += record.size();
      if (++count % 512 == reader) sched_yield();
    });
    const TraceCounters& counters = snapshot.counters();
    if (count != counters.live || bytes != counters.bytes) world.wrong++;
    if (counters.seen != counters.recorded + counters.dropped + counters.filtered) world.wrong++;
  }
  uint64_t gone = 0;
  for (unsigned shard = 0; shard < world.table->shards(); shard++) {
    world.table->try_visit(
        shard, [&](const TraceRecord& record) { gone -= seen.contains(record.object()); });
  }
  gone += seen.size();
  world.held += gone;
  world.snapshots++;
}

void run(World& world, bool clears) {
  std::vector<std::thread> threads;
  for (unsigned cpu = 0; cpu < kWriters; cpu++)
    threads.emplace_back([&world, cpu] { write(world, cpu, 15'000); });
  for (unsigned reader = 0; reader < kReaders; reader++) {
    threads.emplace_back([&world, reader] {
      while (world.running > 0) read_once(world, reader);
    });
  }
  threads.emplace_back([&world, clears] {
    while (world.running > 0) {
      if (clears) world.table->clear();
      for (int i = 0; i < 10; i++) sched_yield();
      uint64_t visited = 0;
      world.table->visit_slices([&](const TraceRecord& record) {
        const TraceEvent event = event_of(record.object(), number_of(record.cpu()));
        if (record.stack != event.stack || record.context != event.context) world.wrong++;
        visited++;
      });
    }
  });
  for (std::thread& thread : threads) thread.join();
}

TEST(SnapshotThreads, NothingIsMissedAndNothingShownTwice) {
  for (const bool clears : {false, true}) {
    World world;
    run(world, clears);
    EXPECT_EQ(world.wrong, 0u);
    EXPECT_GE(world.snapshots, kReaders);
    EXPECT_GT(world.held, 0u);
    for (auto& object : world.out) {
      if (object != 0) world.table->forget(object, CpuId{0});
    }
    const TraceCounters counters = world.table->counters();
    EXPECT_EQ(counters.recorded, uint64_t{kWriters} * 15'000);
    EXPECT_EQ(counters.live, 0u);
    EXPECT_EQ(counters.bytes, 0u);
    EXPECT_EQ(counters.freed + counters.cleared, counters.recorded);
    EXPECT_EQ(counters.freed + counters.unmatched, counters.recorded);
    TraceTable::destroy(world.table);
    EXPECT_EQ(TraceWorld::pages_out(), 0u);
  }
}

// A table has at most one open snapshot, so one reader reads its snapshot while the other readers
// wait in open(). Meanwhile the table is destroyed.
TEST(SnapshotThreads, ATableThatEndsStaysForItsReaders) {
  for (unsigned round = 0; round < 50; round++) {
    TraceTable* const table = TraceTable::create(kWriters);
    for (uint64_t i = 1; i <= 500; i++) record(*table, event_of(i * 64, i % kWriters));
    std::atomic<uint64_t> wrong{0};
    std::vector<std::thread> readers;
    std::vector<TraceSnapshot> snapshots(4);
    for (TraceSnapshot& snapshot : snapshots) snapshot.choose(*table);
    for (TraceSnapshot& snapshot : snapshots) {
      readers.emplace_back([&] {
        const Result<void> opened = snapshot.open();
        if (!opened.ok()) {
          if (opened.error() != Errno::ENOENT) wrong++;
          return;
        }
        uint64_t count = 0;
        TraceSnapshot::Slice slice;
        snapshot.visit(slice, [&](const TraceRecord&) { count++; });
        // A table is destroyed shard by shard, and a snapshot is opened shard by shard. So a
        // snapshot may have the records of some shards only.
        if (count != snapshot.counters().live || count > 500) wrong++;
        snapshot.close();
      });
    }
    for (unsigned i = 0; i < round % 20; i++) sched_yield();
    TraceTable::destroy(table);
    for (std::thread& reader : readers) reader.join();
    ASSERT_EQ(wrong, 0u);
    ASSERT_EQ(TraceWorld::pages_out(), 0u);
  }
}

}  // namespace
