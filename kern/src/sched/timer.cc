// Timers: each CPU has a list by deadline; its tick runs the due ones.
//
// Only few timers are armed at a time (sleeping tasks), so insertion walks the list. A callback
// runs with the queue unlocked; `running` names its timer, so that timer_cancel can wait for its
// end.
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

// False while the callback runs.
bool disarm(Timer& timer) {
  TimerQueue& queue = queues[timer.cpu];
  const Guard guard(queue.lock);
  if (timer.link.linked()) timer.link.unlink();
  return queue.running != &timer;
}

}  // namespace

void timers_run() {
  TimerQueue& queue = queues[cpu_id()];
  if (queue.timers.empty()) return;  // only this CPU adds
  const Nanoseconds now = monotonic_now();
  while (Timer* timer = next_due(queue, now)) timer->callback(timer->argument);
}

void timer_arm(Timer& timer, Nanoseconds deadline) {
  disarm(timer);
  const InterruptsOff off;
  timer.cpu = cpu_id();
  timer.deadline = deadline;
  TimerQueue& queue = queues[timer.cpu];
  const Guard guard(queue.lock);
  // After all timers that are due no later.
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
