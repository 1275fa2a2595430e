// Sweeps of stacks and contexts while CPUs record, under ThreadSanitizer.

#include <gtest/gtest.h>

#include <memory>

#include "forget_workload.h"
#include "trace_world.h"

namespace {

// `most_held`: bytes.
void run(uint32_t different, uint32_t hooks, unsigned epochs, uint64_t most_held) {
  const auto workload = std::make_unique<ForgetWorkload>(different, hooks);
  ASSERT_TRUE(workload->open());
  workload->run(epochs);
  workload->check_at_rest();
  EXPECT_LE(workload->most_held(), most_held);
  workload->close();
  EXPECT_EQ(TraceWorld::pages_out(), 0u);
}

// Nearly every dead entry is wanted again.
TEST(ForgetThreads, FewThatComeAndGo) {
  run(32, 1000, 40, 64 * 1024);
}

// Without sweeps they would take megabytes.
TEST(ForgetThreads, ManyThatComeAndGo) {
  run(8000, 100, 60, 384 * 1024);
}

}  // namespace
