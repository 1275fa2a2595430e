// Tests the tables of stacks, contexts and records, and the pool from which these tables take
// pages, under ThreadSanitizer. Each thread represents a CPU.

#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "intern/context_table.h"
#include "intern/page_pool_impl.h"
#include "intern/stack_table.h"
#include "intern/trace_memory.h"
#include "table_access.h"
#include "trace/record/table.h"
#include "trace_arena.h"

namespace {

constexpr unsigned kCpus = 4;

// Runs body(cpu) on `count` CPUs that begin at the same moment.
void run(unsigned count, const std::function<void(unsigned)>& body) {
  std::barrier start(count);
  std::vector<std::thread> threads;
  for (unsigned cpu = 0; cpu < count; cpu++) {
    threads.emplace_back([&, cpu] {
      start.arrive_and_wait();
      body(cpu);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// ---- The pool.

struct PoolPage {
  uint64_t owner;
};

TEST(PagePoolThreads, EachPageHasOneOwnerAndWhoHasARightToOneGetsIt) {
  constexpr uint32_t kRight = 3;
  static PagePool<kRight * kCpus> pool;
  std::vector<PoolPage> pages(kRight * kCpus);
  for (PoolPage& page : pages) ASSERT_TRUE(pool.put(&page));
  ASSERT_FALSE(pool.put(&pages[0])) << "there is no room";
  std::atomic<int> wrong{0};
  // put() may return false although a slot is free, because put() looks at each slot only once.
  const auto give = [](PoolPage* page) {
    while (!pool.put(page)) sched_yield();
  };
  run(kCpus, [&](unsigned cpu) {
    std::minstd_rand random(cpu + 1);
    std::vector<PoolPage*> mine;
    for (int i = 0; i < 40'000; i++) {
      if (mine.size() < kRight && random() % 2 == 0) {
        auto* page = static_cast<PoolPage*>(pool.take());
        if (!page) {
          wrong++;
          continue;
        }
        page->owner = cpu;
        mine.push_back(page);
      } else if (!mine.empty()) {
        PoolPage* page = mine.back();
        mine.pop_back();
        if (page->owner != cpu) wrong++;
        give(page);
      }
    }
    for (PoolPage* page : mine) give(page);
  });
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(pool.count(), pages.size());
  std::set<void*> all;
  while (void* page = pool.take()) all.insert(page);
  EXPECT_EQ(all.size(), pages.size());
}

// ---- The tables, with pages from the pool.

class TraceThreads : public testing::Test {
 protected:
  static void SetUpTestSuite() { trace_memory_init(uint64_t{64} << 20); }
  void SetUp() override {
    trace_memory_set_limit(uint64_t{64} << 20);
    trace_memory_begin(kCpus);
  }
  void TearDown() override {
    trace_memory_end();
    EXPECT_EQ(trace_memory_used(), 0u);
    EXPECT_EQ(trace_arena::pages_out(), 0u);
  }
};

// CPU 0 starts and ends tracing. Meanwhile the other CPUs take and return pages, as CPUs do when
// they store the contexts of new processes. After the end, the pool must have no pages.
TEST_F(TraceThreads, ThePoolIsEmptyWhenTracingHasEndedWhateverOthersDo) {
  trace_memory_end();
  for (int round = 0; round < 300; round++) {
    run(kCpus, [](unsigned cpu) {
      if (cpu == 0) {
        trace_memory_begin(kCpus);
        trace_memory_end();
        return;
      }
      for (int i = 0; i < 20; i++) {
        trace_memory_prepare();
        if (void* page = trace_page_take()) {
          if (i % 2) {
            trace_page_free(page);
          } else {
            trace_page_return(page);
          }
        }
      }
    });
    ASSERT_EQ(trace_arena::pages_out(), 0u);
  }
  trace_memory_begin(kCpus);
}

using Frames = std::vector<uint64_t>;

// Returns stack number `index`, which is the same on all CPUs. Many stacks begin or end alike.
Frames stack_of(uint64_t index) {
  Frames frames(1 + index % 40);
  for (size_t i = 0; i < frames.size(); i++) {
    frames[i] = StackTable::kKernelBase + 0x1000 + (index >> (i % 3 * 4) & 0xf) * 16;
  }
  frames[frames.size() / 2] = StackTable::kKernelBase + 0x100000 + index * 16;
  return frames;
}

Frames stored(const StackTable& table, StackId id) {
  const StackTable::View view = table.view(id);
  Frames frames;
  for (size_t i = 0; i < view.size(); i++) frames.push_back(view[i]);
  return frames;
}

StackId intern(StackTable& table, uint64_t index) {
  const Frames frames = stack_of(index);
  trace_memory_prepare();
  return table.intern(StackKind::kKernel, frames.data(), frames.size());
}

// All CPUs add the same stacks. In two of three rounds they use the same order, so that nearly
// every addition is a race. In every third round each CPU has its own order.
TEST_F(TraceThreads, AStackNeverHasTwoNumbersWhoeverAddsIt) {
  constexpr uint64_t kStacks = 1500;
  static StackTable table;
  for (unsigned round = 0; round < 12; round++) {
    ASSERT_TRUE(table.open().ok());
    std::vector<std::vector<StackId>> ids(kCpus, std::vector<StackId>(kStacks));
    std::atomic<int> wrong{0};
    run(kCpus, [&](unsigned cpu) {
      std::vector<uint64_t> order(kStacks);
      for (uint64_t i = 0; i < kStacks; i++) order[i] = i;
      if (round % 3 == 2) std::shuffle(order.begin(), order.end(), std::mt19937_64(cpu + round));
      for (const uint64_t index : order) {
        const StackId id = intern(table, index);
        ids[cpu][index] = id;
        if (id == StackId::kNone || stored(table, id) != stack_of(index) ||
            intern(table, index) != id)
          wrong++;
      }
    });
    ASSERT_EQ(wrong, 0);
    for (const auto& others : ids) ASSERT_EQ(others, ids[0]);
    ASSERT_EQ(std::set<StackId>(ids[0].begin(), ids[0].end()).size(), kStacks);
    ASSERT_EQ(table.size(), kStacks);
    table.clear();
  }
}

TEST_F(TraceThreads, UnderALimitSomeStacksAreLostAndTheOthersHaveOneNumber) {
  constexpr uint64_t kStacks = 1500;
  static StackTable table;
  trace_memory_end();
  trace_memory_set_limit(24 * 4096);
  trace_memory_begin(kCpus);
  for (unsigned round = 0; round < 6; round++) {
    ASSERT_TRUE(table.open().ok());
    std::vector<std::map<uint64_t, StackId>> ids(kCpus);
    std::atomic<uint64_t> lost{0};
    run(kCpus, [&](unsigned cpu) {
      for (uint64_t i = 0; i < kStacks; i++) {
        if (const StackId id = intern(table, i); id != StackId::kNone) {
          ids[cpu][i] = id;
        } else {
          lost++;
        }
      }
    });
    EXPECT_GT(lost, 0u);
    EXPECT_LE(trace_memory_used(), trace_memory_limit());
    std::map<uint64_t, StackId> all;
    for (const auto& some : ids) {
      for (const auto& [index, id] : some) {
        ASSERT_EQ(all.emplace(index, id).first->second, id);
        ASSERT_EQ(stored(table, id), stack_of(index));
      }
    }
    ASSERT_EQ(table.size(), all.size());
    table.clear();
  }
}

// All CPUs intern contexts of the same processes, in the same order.
TEST_F(TraceThreads, AContextHasOneNumberWhoeverAddsIt) {
  constexpr uint32_t kProcesses = 300;
  static ContextTable table;
  for (unsigned round = 0; round < 4; round++) {
    ASSERT_TRUE(table.open().ok());
    std::vector<std::vector<ContextId>> ids(kCpus);
    std::atomic<int> wrong{0};
    run(kCpus, [&](unsigned cpu) {
      for (uint32_t pid = 1; pid <= kProcesses; pid++) {
        trace_memory_prepare();
        const std::string name = "program" + std::to_string(pid % 50);
        const ContextId id = table.intern(ContextKind::kProcess, pid, name);
        ids[cpu].push_back(id);
        if (id == ContextId::kNone || table.recall(table.remember(id)) != id ||
            table.get(id)->pid != pid || table.get(id)->program->name != name)
          wrong++;
      }
    });
    ASSERT_EQ(wrong, 0);
    for (const auto& others : ids) ASSERT_EQ(others, ids[0]);
    ASSERT_EQ(table.size(), kProcesses);
    table.clear();
  }
}

TraceEvent event_of(uint64_t object, unsigned cpu) {
  return {.object = object,
          .size = 64,
          .stack = StackId{static_cast<uint32_t>(object % 7)},
          .context = ContextId{1},
          .time = 5,
          .cpu = CpuId{static_cast<uint32_t>(cpu)},
          .truncated = object % 3 == 0};
}

// Each of kCpus CPUs records objects, and frees objects that it or another CPU has recorded.
// Meanwhile one more CPU reads snapshots of the table, advances the table's mark and clears the
// table.
TEST_F(TraceThreads, IdentitiesHoldInEachShardAtEachMoment) {
  for (const uint64_t limit : {uint64_t{64} << 20, uint64_t{40} * 4096}) {
    trace_memory_set_limit(limit);
    // The previous round may have left more pages in the pool than the limit allows.
    const uint64_t most = std::max(limit, trace_memory_used());
    TraceTable* table = TraceTable::create(kCpus);
    ASSERT_NE(table, nullptr);
    std::vector<std::atomic<uint64_t>> exchange(64);
    std::atomic<unsigned> running{kCpus};
    std::atomic<uint64_t> allocated{0}, filtered{0}, freed{0}, wrong{0};
    run(kCpus + 1, [&](unsigned cpu) {
      if (cpu == kCpus) {
        while (running > 0) {
          TraceSnapshot snapshot;
          if (!snapshot.open(*table)) wrong++;
          const TraceCounters& counters = snapshot.counters();
          if (counters.seen != counters.recorded + counters.dropped + counters.filtered) wrong++;
          for (int pass = 0; pass < 2; pass++) {
            uint64_t count = 0;
            TraceSnapshot::Slice slice;
            snapshot.visit(slice, [&](const TraceRecord& record) { count += record.size() == 64; });
            if (counters.recorded != counters.freed + counters.cleared + count) wrong++;
            if (counters.bytes != 64 * count) wrong++;
          }
          if (table->mark() < TraceTable::kMaxMark) table->next_mark();
          if (table->mark() % 8 == 0) table->clear();
          const TraceCounters sum = table->counters();
          if (sum.seen < sum.dropped + sum.filtered) wrong++;
        }
        return;
      }
      std::minstd_rand random(cpu + 1);
      uint64_t next = 0xffff800000000000 + (uint64_t{cpu} << 32);
      for (int i = 0; i < 12'000; i++) {
        const uint64_t object = next += 64;
        if (random() % 16 == 0) {
          table->filter(CpuId{cpu});
          filtered++;
        } else {
          trace_memory_prepare();
          record(*table, event_of(object, cpu));
          allocated++;
        }
        const uint64_t other = exchange[random() % exchange.size()].exchange(object);
        if (other == 0) continue;
        forget(*table, other, cpu);
        freed++;
      }
      running--;
    });
    EXPECT_EQ(wrong, 0u);
    for (auto& object : exchange) {
      if (object == 0) continue;
      table->forget(object, CpuId{0});
      freed++;
    }
    const TraceCounters counters = table->counters();
    EXPECT_EQ(counters.seen, allocated + filtered);
    EXPECT_EQ(counters.filtered, filtered);
    EXPECT_EQ(counters.freed + counters.unmatched, freed);
    EXPECT_EQ(counters.live, 0u);
    EXPECT_LE(trace_memory_used(), most);
    TraceTable::destroy(table);
  }
}

}  // namespace
