// What the files of the scheduler share.
#pragma once

#include "sched/task.h"
#include "store/current_context.h"

// How the current task leaves the CPU.
enum class Leave : uint8_t { kRunnable, kAsleep, kDead };

// Locks the run queue of this CPU. Interrupts off. The lock is what keeps the current task from
// being run elsewhere before it has left this CPU: who wakes it waits for the lock.
void run_queue_lock();
void run_queue_unlock();
// Runs the next task. The run queue is locked; it is unlocked when the current task runs again and
// this returns, maybe on another CPU. Interrupts off on both sides.
void run_queue_switch(Leave leave);
// Makes a task runnable that has its state kSleeping; whoever comes first does it, all others find
// it done. Any context.
void run_queue_wake(Task& task);
// Puts a task that is not on any queue onto one. Any context.
void run_queue_add(Task& task);

// Where a task begins, on its own stack.
void task_begin(void* task);
// Hands a task that has left its CPU for ever to the reaper. Interrupts off, no locks.
void reaper_take(Task& task);
// Task cache, task list, reaper.
void tasks_init();
// Which tasks wait for sleeping locks, for #mem/unreachable.
void lock_waits_init();
// The task that keeps the time of the memory core.
void memory_task_init();
// How long it sleeps, from its next sleep on, between two looks whether memory is low; fifteen make
// an interval. A second, but in tests.
inline constexpr Nanoseconds kMemoryLook{1'000'000'000};
void memory_task_set_look(Nanoseconds look);

// The task that the sweeper of stacks and contexts (store/sweeper.h) runs in; and in each tick on
// each CPU, interrupts off, whether it is time for that.
void sweep_task_init();
void sweep_task_tick();
// What the next tasks remember for the tracer, from the first one on if it is `first`: how many;
// none at the end. Idle tasks are not among them. By one at a time; the list's lock is held for
// them.
inline constexpr size_t kRememberedAtOnce = 32;
size_t tasks_remembered(bool first, TraceNumbers (&numbers)[kRememberedAtOnce]);
// That of a CPU, which may not have come up.
const Task& idle_task(unsigned cpu);

// Waits for an interrupt on a CPU that has no task to run; interrupts off before, on after.
void idle_wait();
// Under an emulator that counts instructions: icount.cc. The second in each tick, interrupts off.
void icount_init();
void icount_tick();

// Calls what is due on this CPU. In the tick.
void timers_run();
