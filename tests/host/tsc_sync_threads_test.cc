// The comparison of two CPUs' time stamp counters: two threads, whose clocks differ by a known
// number of ticks.
#include "arch/x86_64/tsc_sync_impl.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <thread>

namespace {

thread_local int64_t ahead = 0;
thread_local bool stops = false;

uint64_t read_counter() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  const auto value = static_cast<uint64_t>(std::chrono::nanoseconds(now).count() + ahead);
  if (stops) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  return value;
}

// Returns the difference that a CPU sees whose counter is behind that of the boot CPU by `behind`.
TscDifference compare(int64_t behind, bool with_stops) {
  TscComparison comparison(read_counter);
  std::atomic<bool> is_over{false};
  TscDifference seen;
  std::thread asking([&] {
    ahead = -behind;
    stops = with_stops;
    seen = comparison.ask();
    is_over = true;
  });
  while (!is_over) comparison.answer();
  asking.join();
  return seen;
}

TEST(TscSync, equal_counters_do_not_differ) {
  for (int i = 0; i < 20; i++) EXPECT_FALSE(compare(0, i % 4 == 0).is_certain());
}

TEST(TscSync, the_difference_is_within_its_doubt) {
  for (const int64_t behind : {500'000'000, -500'000'000}) {
    for (const bool with_stops : {false, true}) {
      const TscDifference difference = compare(behind, with_stops);
      EXPECT_TRUE(difference.is_certain());
      EXPECT_LE(static_cast<uint64_t>(std::llabs(difference.ticks - behind)), difference.doubt);
    }
  }
}

}  // namespace
