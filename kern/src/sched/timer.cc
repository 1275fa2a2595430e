// Timers. Each CPU has a list of timers, ordered by deadline; the CPU's tick runs the timers that
// are due.
//
// Few timers are armed at a time (those of sleeping tasks), so insertion walks the list. A callback
// runs with the queue unlocked. Until it returns, `running` points to its timer, so that
// timer_cancel can wait for the end of the callback.
#include "sched/timer.h"

#include "arch/x86_64/time.h"
#include "core/cpu.h"
#include "core/spinlock.h"
#include "sched/sched.h"

namespace {

struct alignas(64) TimerQueue {
  Spinlock lock{LockRank::kTimer};
  List<Timer, &Timer::link> timers;
  const Timer* running = nullptr;
};

constinit TimerQueue queues[kMaxCpus];

// Takes the first due timer off the queue and sets `running` to it; nullptr if none is due.
Timer* next_due(TimerQueue& queue, Nanoseconds now) {
  const Guard guard(queue.lock);
  Timer* first = queue.timers.front();
  if (first && first->deadline > now) first = nullptr;
  if (first) first->link.unlink();
  queue.running = first;
  return first;
}

// Takes the timer off its queue. False if its callback is running.
bool disarm(Timer& timer) {
  TimerQueue& queue = queues[number_of(timer.cpu)];
  const Guard guard(queue.lock);
  if (timer.link.linked()) timer.link.unlink();
  return queue.running != &timer;
}

}  // namespace

void timers_run() {
  TimerQueue& queue = queues[number_of(cpu_id())];
  if (queue.timers.empty()) return;  // tested without the lock: only this CPU adds timers
  const Nanoseconds now = monotonic_now();
  while (Timer* timer = next_due(queue, now)) timer->callback(timer->argument);
}

void timer_arm(Timer& timer, Nanoseconds deadline) {
  disarm(timer);
  const InterruptsOff off;
  timer.cpu = cpu_id();
  timer.deadline = deadline;
  TimerQueue& queue = queues[number_of(timer.cpu)];
  const Guard guard(queue.lock);
  // Inserts the timer after all timers that are due at the same time or earlier.
  for (Timer& other : queue.timers) {
    if (other.deadline <= deadline) continue;
    List<Timer, &Timer::link>::insert_before(other, timer);
    return;
  }
  queue.timers.push_back(timer);
}

void timer_cancel(Timer& timer) {
  while (!disarm(timer)) asm volatile("pause");
}
