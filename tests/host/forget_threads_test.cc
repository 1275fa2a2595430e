// Sweeps of the tables of stacks and contexts while CPUs record allocations, under ThreadSanitizer.

#include <gtest/gtest.h>

#include <memory>

#include "forget_workload.h"
#include "trace_world.h"

namespace {

// Makes `epochs` sweeps of a ForgetWorkload(different, hooks), and checks that the tables had at
// most `most_held` bytes of memory after each sweep.
void run(uint32_t different, uint32_t hooks, unsigned epochs, uint64_t most_held) {
  const auto workload = std::make_unique<ForgetWorkload>(different, hooks);
  ASSERT_TRUE(workload->open());
  workload->run(epochs);
  workload->check_at_rest();
  EXPECT_LE(workload->most_held(), most_held);
  workload->close();
  EXPECT_EQ(TraceWorld::pages_out(), 0u);
}

// There are few stacks, so the CPUs soon record a stack again after a sweep has removed its entry.
TEST(ForgetThreads, FewThatComeAndGo) {
  run(32, 1000, 40, 64 * 1024);
}

// With many stacks, the entries would take megabytes if no sweep removed unused entries.
TEST(ForgetThreads, ManyThatComeAndGo) {
  run(8000, 100, 60, 384 * 1024);
}

}  // namespace
