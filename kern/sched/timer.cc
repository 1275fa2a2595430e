// Timers. Each CPU has a heap of timers, ordered by deadline; the CPU's tick runs the timers that
// are due.
//
// A tick runs at most kMaxTimersPerTick callbacks, each of which takes a few microseconds. Further
// due timers wait for the next tick. They are then first, because they have the earliest deadlines:
// users with many timers delay other timers, but hold off none. A callback
// runs with the queue unlocked. Until it returns, `running` points to its timer, so that
// timer_cancel can wait for the end of the callback.
#include "sched/timer.h"

#include "arch/x86_64/time.h"
#include "core/cpu.h"
#include "core/planted.h"
#include "core/spinlock.h"
#include "sched/sched_impl.h"
#include "sched/timer_heap_impl.h"

namespace {

struct alignas(64) TimerQueue {
  Spinlock lock{LockRank::kTimer};
  TimerHeap timers;
  const Timer* running = nullptr;
};

constinit TimerQueue queues[kMaxCpus];

// Takes the first due timer off the queue and sets `running` to it; nullptr if none is due.
Timer* next_due(TimerQueue& queue, Nanoseconds now) {
  const Guard guard(queue.lock);
  Timer* first = queue.timers.first();
  if (first && first->deadline > now) first = nullptr;
  if (first) queue.timers.remove(*first);
  queue.running = first;
  return first;
}

// Takes the timer off its queue. False if its callback is running.
bool disarm(Timer& timer) {
  TimerQueue& queue = queues[number_of(timer.cpu)];
  const Guard guard(queue.lock);
  if (timer.is_armed()) queue.timers.remove(timer);
  return queue.running != &timer;
}

}  // namespace

void timers_run() {
  TimerQueue& queue = queues[number_of(cpu_id())];
  if (queue.timers.empty()) return;  // tested without the lock: only this CPU adds timers
  const Nanoseconds now = monotonic_now();
  for (unsigned i = 0; i < kMaxTimersPerTick || planted(Planted::kTimerStorm); i++) {
    Timer* const timer = next_due(queue, now);
    if (!timer) return;
    timer->callback(timer->argument);
  }
  const Guard guard(queue.lock);
  queue.running = nullptr;
}

void timer_arm(Timer& timer, Nanoseconds deadline) {
  disarm(timer);
  const InterruptsOff off;
  timer.cpu = cpu_id();
  timer.deadline = deadline;
  TimerQueue& queue = queues[number_of(timer.cpu)];
  const Guard guard(queue.lock);
  queue.timers.insert(timer);
}

void timer_cancel(Timer& timer) {
  while (!disarm(timer)) asm volatile("pause");
}
