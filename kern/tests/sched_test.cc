// Tests of tasks, wait queues, mutexes and timers on all CPUs.
#include <atomic>

#include "arch/x86_64/interrupts.h"
#include "arch/x86_64/time.h"
#include "core/errstr.h"
#include "core/ktest.h"
#include "lib/format.h"
#include "lib/string.h"
#include "sched/sched_impl.h"
#include "sched/task.h"
#include "sched/timer.h"
#include "slab.h"
#include "tests/cache_stats.h"
#include "tests/team.h"

namespace {

constexpr uint64_t kMillisecond = 1'000'000;
constexpr unsigned kMaxTasks = 2 * kMaxCpus;

Nanoseconds in_milliseconds(uint64_t n) {
  return monotonic_now() + Nanoseconds{n * kMillisecond};
}

}  // namespace

// On each CPU, one task never sleeps, and another task must run, too. Only the tick can preempt the
// first task.
KTEST(sched_preempts_on_all_cpus) {
  struct Shared {
    std::atomic<bool> stop{false};
    std::atomic<unsigned> seen[kMaxCpus]{};
    std::atomic<unsigned> finished{0};
  };
  static Shared shared;
  shared.stop = false;
  shared.finished = 0;
  Team spinners(
      [](void*) {
        while (!shared.stop) asm volatile("pause");
      },
      nullptr);
  Team others(
      [](void*) {
        shared.seen[number_of(cpu_id())]++;
        if (++shared.finished == cpu_count()) shared.stop = true;
      },
      nullptr);
  for (const CpuId cpu : all_cpus()) spinners.add(cpu);
  for (const CpuId cpu : all_cpus()) others.add(cpu);
  others.join();
  spinners.join();
  for (unsigned i = 0; i < cpu_count(); i++) EXPECT(shared.seen[i] == 1);
}

// A task starts unpinned tasks, one for each CPU. The scheduler must spread them over all CPUs.
KTEST(sched_spreads_over_cpus) {
  static std::atomic<unsigned> arrived;
  arrived = 0;
  // Each task holds its CPU until all CPUs have such a task. If the tasks used fewer CPUs, the test
  // would not end.
  Team team(
      [](void*) {
        const PreemptOff stay;
        arrived++;
        while (arrived < cpu_count()) asm volatile("pause");
      },
      nullptr);
  for (unsigned i = 0; i < cpu_count(); i++) team.add();
  team.join();
  EXPECT(arrived == cpu_count());
}

// A buffer for a single number. The consumers must take as many numbers as the producers put in,
// and both must count the same sum of numbers.
KTEST(wait_queue_loses_no_wakeup) {
  struct Box {
    Spinlock lock{LockRank::kDevice};
    WaitQueue full, empty;
    bool holds = false;
    uint64_t value = 0, put = 0, taken = 0, sum_put = 0, sum_taken = 0;
  };
  static Box box;
  constexpr uint64_t kItems = 2'000;
  Team producers(
      [](void*) {
        for (;;) {
          const Guard guard(box.lock);
          if (box.put == kItems) return;
          box.empty.wait_uninterruptible(box.lock, [] { return !box.holds || box.put == kItems; });
          if (box.put == kItems) return;
          box.put++;
          box.value = box.put * 7919;
          box.sum_put += box.value;
          box.holds = true;
          box.full.wake_one();
          if (box.put == kItems) box.empty.wake_all();
        }
      },
      nullptr);
  Team consumers(
      [](void*) {
        for (;;) {
          const Guard guard(box.lock);
          box.full.wait_uninterruptible(box.lock, [] { return box.holds || box.taken == kItems; });
          if (box.taken == kItems) return;
          box.holds = false;
          box.taken++;
          box.sum_taken += box.value;
          box.empty.wake_one();
          if (box.taken == kItems) box.full.wake_all();
        }
      },
      nullptr);
  for (int i = 0; i < 3; i++) producers.add();
  for (int i = 0; i < 3; i++) consumers.add();
  producers.join();
  consumers.join();
  EXPECT(box.put == kItems && box.taken == kItems);
  EXPECT(box.sum_put == box.sum_taken);
}

KTEST(wait_queue_deadline) {
  Spinlock lock{LockRank::kDevice};
  WaitQueue queue;
  const Guard guard(lock);
  const Nanoseconds deadline = in_milliseconds(20);
  const Result<void> result = queue.wait(
      lock, [] { return false; }, deadline);
  EXPECT(!result && result.error() == Errno::ETIMEDOUT);
  EXPECT(monotonic_now() >= deadline);
  EXPECT(lock.held());
  // A wait whose condition is true succeeds, even if the deadline has passed.
  EXPECT(queue
             .wait(
                 lock, [] { return true; }, deadline)
             .ok());
}

// Deadlines and wake-ups coincide at random moments. Each wait either succeeds with a true
// condition, or times out with a false one.
KTEST(wait_queue_deadline_races_with_wake) {
  struct Shared {
    Spinlock lock{LockRank::kDevice};
    WaitQueue queue;
    bool ready = false, stop = false;
  };
  static Shared shared;
  static uint64_t woken, timed_out;
  Team waker(
      [](void*) {
        for (;;) {
          static_cast<void>(task_sleep_until(in_milliseconds(ktest_random() % 8)));
          const Guard guard(shared.lock);
          if (shared.stop) return;
          shared.ready = true;
          shared.queue.wake_one();
        }
      },
      nullptr);
  waker.add();
  {
    const Guard guard(shared.lock);
    for (int i = 0; i < 100; i++) {
      const Result<void> result = shared.queue.wait(
          shared.lock, [] { return shared.ready; }, in_milliseconds(ktest_random() % 8));
      if (result) {
        EXPECT(shared.ready);
        woken++;
      } else {
        EXPECT(result.error() == Errno::ETIMEDOUT && !shared.ready);
        timed_out++;
      }
      shared.ready = false;
    }
    shared.stop = true;
  }
  waker.join();
  EXPECT(woken + timed_out == 100);
}

KTEST(wait_queue_interrupt) {
  struct Shared {
    std::atomic<Task*> sleeper{nullptr};
    std::atomic<int> error{0};
    std::atomic<bool> go{false};
    Spinlock lock{LockRank::kDevice};
    WaitQueue queue;
  };
  static Shared shared;
  Team team(
      [](void*) {
        shared.sleeper = current_task();
        {
          const Guard guard(shared.lock);
          const Result<void> result = shared.queue.wait(shared.lock, [] { return false; });
          shared.error = static_cast<int>(result.error());
          // The task is still interrupted. An interruptible sleep ends at once; an uninterruptible
          // one continues.
          EXPECT(!shared.queue.wait(shared.lock, [] { return false; }));
          shared.queue.wait_uninterruptible(shared.lock, [] { return shared.go.load(); });
        }
        current_task()->interrupted = false;
      },
      nullptr);
  team.add();
  while (!shared.sleeper) task_yield();
  // The task may be about to sleep, going to sleep, or asleep. task_interrupt() must end the sleep
  // in each case.
  task_interrupt(shared.sleeper);
  while (!shared.error) task_yield();
  EXPECT(shared.error == static_cast<int>(Errno::EINTR));
  shared.go = true;
  {
    const Guard guard(shared.lock);
    shared.queue.wake_all();
  }
  team.join();
}

KTEST(mutex_excludes) {
  static Mutex mutex{LockRank::kDeviceMutex};
  static volatile uint64_t counter;
  static std::atomic<int> inside;
  counter = 0;
  constexpr uint64_t kRounds = 2'000;
  Team team(
      [](void*) {
        for (uint64_t i = 0; i < kRounds; i++) {
          const MutexGuard guard(mutex);
          EXPECT(++inside == 1);
          EXPECT(mutex.held());
          counter = counter + 1;
          if (i % 64 == 0) task_yield();
          inside--;
        }
      },
      nullptr);
  const unsigned tasks = cpu_count() + 2;
  for (unsigned i = 0; i < tasks; i++) team.add();
  team.join();
  EXPECT(counter == tasks * kRounds);
  EXPECT(!mutex.held());
}

KTEST(timer_calls_in_order_and_once) {
  struct Shared {
    std::atomic<int> calls{0};
    int order[3]{};
  };
  static Shared shared;
  struct Named {
    Timer timer{};
    int id = 0;
  };
  static Named timers[3];
  for (int i = 0; i < 3; i++) {
    timers[i].id = i;
    timers[i].timer.argument = &timers[i];
    timers[i].timer.callback = [](void* argument) {
      const int n = shared.calls++;
      if (n < 3) shared.order[n] = static_cast<Named*>(argument)->id;
    };
  }
  {
    const InterruptsOff one_cpu;  // all three timers are on one queue
    timer_arm(timers[0].timer, in_milliseconds(40));
    timer_arm(timers[1].timer, in_milliseconds(15));
    timer_arm(timers[2].timer, in_milliseconds(200));
    timer_arm(timers[2].timer, in_milliseconds(5));  // arming again replaces the first time
  }
  static_cast<void>(task_sleep_until(in_milliseconds(100)));
  EXPECT(shared.calls == 3);
  EXPECT(shared.order[0] == 2 && shared.order[1] == 1 && shared.order[2] == 0);
}

// A tick runs a bounded number of timers, those with the earliest deadlines, and the next tick the
// others. The test is the tick.
KTEST(timers_of_one_tick_are_bounded) {
  constexpr unsigned kTimers = 2 * kMaxTimersPerTick + 100;
  struct Numbered {
    Timer timer{};
    uint64_t when = 0;
  };
  static Numbered timers[kTimers];
  static unsigned calls, disorder;
  static uint64_t last;
  calls = disorder = 0;
  last = 0;
  const InterruptsOff one_cpu;
  const uint64_t now = monotonic_now().value;
  for (unsigned i = 0; i < kTimers; i++) {
    Numbered& one = timers[i];
    one.when = (ktest_random() % 100) << 32 | i;  // ascending among timers of equal deadlines
    one.timer.argument = &one;
    one.timer.callback = [](void* argument) {
      const uint64_t when = static_cast<Numbered*>(argument)->when;
      disorder += when < last;
      last = when;
      calls++;
    };
    timer_arm(one.timer, Nanoseconds{now - 1000 + (one.when >> 32)});
  }
  unsigned cancelled = 0;
  for (unsigned i = 0; i < kTimers; i += 7, cancelled++) timer_cancel(timers[i].timer);
  for (unsigned i = 0; i < 3; i++) {
    const unsigned before = calls;
    timers_run();
    EXPECT(calls > before && calls - before <= kMaxTimersPerTick);
  }
  EXPECT(calls == kTimers - cancelled && disorder == 0);
  for (const Numbered& one : timers) EXPECT(!one.timer.is_armed());
}

// A tick that takes longer than the timer's period leaves the CPU time for other work.
KTEST(timers_that_take_long_leave_time) {
  struct Slow {
    Timer timer{};
    uint64_t spent = 0;  // ticks of the time stamp counter
  };
  static Slow slow;
  slow.spent = 0;
  slow.timer.callback = [](void*) {
    const uint64_t begin = tsc();
    while (tsc() - begin < 3 * tsc_per_tick()) cpu_relax();
    slow.spent += tsc() - begin;
    timer_arm(slow.timer, monotonic_now());
  };
  const PreemptOff here;  // the timer is on this CPU's queue
  const uint64_t begin = tsc();
  timer_arm(slow.timer, monotonic_now());
  while (tsc() - begin < 100 * tsc_per_tick()) cpu_relax();
  const uint64_t all = tsc() - begin, spent = slow.spent;
  timer_cancel(slow.timer);
  EXPECT(spent > 0 && spent < all / 2);
}

KTEST(timer_cancel_is_final) {
  static std::atomic<uint64_t> calls;
  for (int i = 0; i < 200; i++) {
    Timer timer{};
    timer.callback = [](void*) { calls++; };
    timer_arm(timer, in_milliseconds(ktest_random() % 3));
    if (ktest_random() % 2) task_yield();
    for (uint64_t spin = ktest_random() % 20'000; spin > 0; spin--) asm volatile("pause");
    timer_cancel(timer);
    const uint64_t before = calls;
    EXPECT(!timer.is_armed());
    if (i % 20 == 0) {
      static_cast<void>(task_sleep_until(in_milliseconds(8)));
      EXPECT(calls == before);
    }
  }
}

// timer_cancel waits for the end of a callback that runs on another CPU.
KTEST(timer_cancel_waits_for_the_callback) {
  if (cpu_count() < 2) return;
  static std::atomic<bool> inside, seen, done;
  static Timer timer;
  timer.callback = [](void*) {
    inside = true;
    while (!seen) asm volatile("pause");  // the host may not be running the other CPU
    const Nanoseconds end = in_milliseconds(20);
    while (monotonic_now() < end) asm volatile("pause");
    inside = false;
  };
  Team armer(
      [](void*) {
        timer_arm(timer, monotonic_now());
        while (!done) task_yield();
      },
      nullptr);
  Team canceller(
      [](void*) {
        while (!inside) asm volatile("pause");
        seen = true;
        timer_cancel(timer);
        EXPECT(!inside);
        done = true;
      },
      nullptr);
  armer.add(kBootCpu);
  canceller.add(CpuId{1});
  canceller.join();
  armer.join();
}

// Many short tasks run. All of them are freed with their stacks.
KTEST(task_exit_frees) {
  task_drain_dead();
  const uint64_t before = live_objects("task");
  static std::atomic<unsigned> ran;
  ran = 0;
  for (int round = 0; round < 10; round++) {
    Team team([](void*) { ran++; }, nullptr);
    for (int i = 0; i < 20; i++) team.add();
    team.join();
    task_drain_dead();
    EXPECT(live_objects("task") == before);
  }
  EXPECT(ran == 200);
  auto unused = task_create(
      "unused", [](void*) {}, nullptr);
  EXPECT(unused.ok() && live_objects("task") == before + 1);
  if (unused) task_discard(*unused);
  EXPECT(live_objects("task") == before);
}

// Each task keeps the contents of its stack across switches, and has an error string of its own.
KTEST(task_stacks_are_their_own) {
  static std::atomic<bool> good;
  good = true;
  Team team(
      [](void*) {
        volatile uint64_t pattern[256];
        const uint64_t mine = current_task()->id;
        for (auto& word : pattern) word = mine;
        for (int i = 0; i < 50; i++) {
          task_yield();
          for (const auto& word : pattern) {
            if (word != mine) good = false;
          }
        }
        static_cast<void>(fail(Errno::EINVAL, "task %lu", mine));
        char expected[32];
        format(expected, sizeof(expected), "task %lu", mine);
        if (strcmp(expected, current_task()->error_string) != 0) good = false;
      },
      nullptr);
  for (unsigned i = 0; i < kMaxTasks && i < 16; i++) team.add();
  team.join();
  EXPECT(good);
}
