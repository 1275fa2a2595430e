#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "intern/stack_counts.h"
#include "probe/events_impl.h"
#include "probe/pairs_impl.h"
#include "trace_world.h"

namespace {

constexpr int kCpus = 4;

template <typename Body>
void on_cpus(Body body) {
  std::vector<std::thread> threads;
  for (int cpu = 0; cpu < kCpus; cpu++) threads.emplace_back(body, cpu);
  for (std::thread& thread : threads) thread.join();
}

// One thread adds to the table while another thread reads it. The sum of the counts never shrinks
// and never exceeds the number of add() calls.
TEST(ProbeThreads, CountsAreReadWhileTheyChange) {
  constexpr uint64_t kAdds = 200000;
  StackCounts::CpuTable part;
  std::atomic<bool> done{false};
  std::thread reader([&] {
    uint64_t before = 0;
    while (!done) {
      uint64_t sum = 0;
      part.visit([&](StackCounts::Key key, uint64_t count) {
        ASSERT_LT(number_of(key.stack), 3000u);
        sum += count;
      });
      ASSERT_GE(sum, before);
      ASSERT_LE(sum, kAdds);
      before = sum;
    }
  });
  for (uint64_t i = 0; i < kAdds; i++)
    ASSERT_TRUE(part.add({StackId{static_cast<uint32_t>(i * 7919 % 3000)}, ContextId::kNone}));
  done = true;
  reader.join();
  uint64_t sum = 0;
  part.visit([&](StackCounts::Key, uint64_t count) { sum += count; });
  EXPECT_EQ(sum, kAdds);
  StackCounts::CpuTable::Contents taken;
  part.take_away(taken);
  StackCounts::CpuTable::release(taken);
}

// Each CPU's events arrive in order and intact. The reader is told of each event that was lost, so
// received and lost events add up to all events.
TEST(ProbeThreads, Events) {
  constexpr uint64_t kEvents = 50000;
  ProbeEvents* events = ProbeEvents::create(3, ProbeEvent::kMaxValues);
  std::atomic<bool> done{false};
  uint64_t taken = 0, lost_in_all = 0;
  std::thread reader([&] {
    uint64_t next[kCpus] = {};
    for (;;) {
      const bool last = done;
      ProbeEvent event;
      bool any;
      uint64_t lost;
      while (events->take(&event, &any, &lost)) {
        lost_in_all += lost;
        if (!any) continue;
        taken++;
        const uint32_t cpu = number_of(event.cpu);
        ASSERT_LT(cpu, kCpus);
        ASSERT_GE(event.time, next[cpu]);
        next[cpu] = event.time + 1;
        for (const uint64_t value : event.values) ASSERT_EQ(value, event.time * 16 + cpu);
      }
      if (last) return;
      std::this_thread::yield();
    }
  });
  std::atomic<uint64_t> put{0};
  on_cpus([&](int cpu) {
    for (uint64_t i = 0; i < kEvents; i++) {
      ProbeEvent event = {};
      event.time = i;
      event.cpu = CpuId{static_cast<uint32_t>(cpu)};
      for (uint64_t& value : event.values) value = i * 16 + static_cast<uint64_t>(cpu);
      if (events->put(event)) put++;
    }
  });
  done = true;
  reader.join();
  EXPECT_EQ(taken, put);
  EXPECT_EQ(taken + lost_in_all, kCpus * kEvents);
  ProbeEvents::destroy(events);
}

// Threads on different CPUs do not see each other's calls, even if the calls are in the same
// bucket.
TEST(ProbeThreads, Pairs) {
  auto pairs = std::make_unique<ProbePairs>();
  const auto stands = [](const ProbeCall&) { return true; };
  const auto forgotten = [](const ProbeCall&) {};
  on_cpus([&](int cpu) {
    for (uint32_t i = 0; i < 20000; i++) {
      const uint32_t pid = i % 50 * kCpus + static_cast<uint32_t>(cpu) + 1;
      const ProbeRunner runner = ProbeRunner::thread(pid);
      ASSERT_FALSE(pairs->within(runner, 50, stands, forgotten));
      ProbeCall call = {};
      call.stack_pointer = 100;
      call.size = pid;
      call.tag = i;
      ASSERT_TRUE(pairs->enter(runner, call));
      ASSERT_TRUE(pairs->within(runner, 50, stands, forgotten));
      ASSERT_TRUE(pairs->leave(runner, 100, i, &call, forgotten));
      ASSERT_EQ(call.size, pid);
    }
  });
}

}  // namespace
