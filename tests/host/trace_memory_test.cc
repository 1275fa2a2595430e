// Tests the pool from which hooks take pages of trace memory (intern/trace_memory.h). The tests
// take pages through the tables of stacks and records. The pool gets its pages from an arena, and
// the tests make allocations from this arena fail.

#include <gtest/gtest.h>

#include <vector>

#include "intern/stack_table.h"
#include "intern/trace_memory.h"
#include "trace/record/table.h"
#include "trace_arena.h"

namespace {

constexpr uint64_t kPlenty = 64 << 20;

class TraceMemoryTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { trace_memory_init(kPlenty); }
  void SetUp() override { trace_memory_set_limit(kPlenty); }
  void TearDown() override {
    trace_arena::fail_nth(UINT64_MAX);
    EXPECT_EQ(trace_memory_used(), 0u);
    EXPECT_EQ(trace_arena::pages_out(), 0u);
  }

  // Makes a table of stacks and a trace table, records 3,000 objects with 500 stacks, and destroys
  // both tables. Stores the trace's counters in *counters. Returns false if the tables could not be
  // made.
  static bool life(TraceCounters* counters) {
    trace_memory_begin(1);
    StackTable stacks;
    const bool open = stacks.open().ok();
    TraceTable* table = open ? TraceTable::create(4) : nullptr;
    if (table) {
      for (uint64_t i = 1; i <= 3000; i++) {
        const uint64_t frames[] = {StackTable::kKernelBase + i % 500 * 16,
                                   StackTable::kKernelBase + 8};
        trace_memory_prepare();
        const StackId stack = stacks.intern(StackKind::kKernel, frames, 2);
        table->record({.object = i * 64,
                       .size = 1,
                       .stack = stack,
                       .context = ContextId{1},
                       .time = 0,
                       .cpu = CpuId{0},
                       .truncated = false});
        EXPECT_LE(trace_memory_used(), trace_memory_limit());
      }
      *counters = table->counters();
      EXPECT_EQ(counters->seen, counters->recorded + counters->dropped);
      TraceTable::destroy(table);
    }
    if (open) stacks.clear();
    trace_memory_end();
    return table != nullptr;
  }
};

// The pool has a page in reserve. So if one allocation of a page fails, no record is lost.
TEST_F(TraceMemoryTest, OnePageThatCannotBeHadCostsNothing) {
  uint64_t nth = 0;
  do {
    trace_arena::fail_nth(nth);
    TraceCounters counters = {};
    ASSERT_TRUE(life(&counters)) << nth;
    ASSERT_EQ(counters.recorded, 3000u) << nth;
    ASSERT_EQ(counters.stacks_lost, 0u) << nth;
    ASSERT_EQ(trace_arena::pages_out(), 0u) << nth;
    ASSERT_EQ(trace_memory_used(), 0u) << nth;
  } while (trace_arena::allocations() > nth++);
  EXPECT_GT(nth, 30u);
}

TEST_F(TraceMemoryTest, AtEveryLimitWhatIsNotRecordedIsCountedAndAllComesBack) {
  uint64_t recorded = 0;
  for (uint64_t pages = 0; pages < 120; pages++) {
    trace_memory_set_limit(pages * 4096);
    TraceCounters counters = {};
    if (life(&counters)) {
      EXPECT_EQ(counters.seen, 3000u);
      EXPECT_GE(counters.recorded + 127 * 16, recorded) << "more memory, more records";
      recorded = counters.recorded;
    } else {
      EXPECT_EQ(recorded, 0u);
    }
    ASSERT_EQ(trace_memory_used(), 0u);
  }
  EXPECT_EQ(recorded, 3000u);
}

TEST_F(TraceMemoryTest, WhatWasTakenAndNotNeededIsTakenAgain) {
  trace_memory_begin(1);
  const uint64_t used = trace_memory_used();
  std::vector<void*> pages;
  while (void* page = trace_page_take()) pages.push_back(page);
  ASSERT_EQ(pages.size(), kPagesPerHook + kSparePages);
  for (void* page : pages) trace_page_return(page);
  EXPECT_EQ(trace_memory_used(), used);
  EXPECT_NE(pages[0] = trace_page_take(), nullptr);
  trace_page_free(pages[0]);
  trace_memory_end();
}

}  // namespace
