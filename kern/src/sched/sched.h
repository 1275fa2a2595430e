// Shared by the files of the scheduler.
#pragma once

#include "sched/task.h"
#include "store/current_context.h"

// The state in which the current task leaves the CPU.
enum class Leave : uint8_t { kRunnable, kAsleep, kDead };

// Locks the run queue of this CPU. Interrupts off. Waking a task takes the same lock, so the
// current task cannot run elsewhere before it has left this CPU.
void run_queue_lock();
void run_queue_unlock();
// Runs the next task. The caller has locked the run queue; it is unlocked when the current task
// runs again and this returns, maybe on another CPU. Interrupts off on both sides.
void run_queue_switch(Leave leave);
// Makes a sleeping task (kSleeping) runnable. Of several callers the first succeeds, the others do
// nothing. Any context.
void run_queue_wake(Task& task);
// Puts a task that is on no queue onto one. Any context.
void run_queue_add(Task& task);

// Entry of each task, on its own stack.
void task_begin(void* task);
// Hands a dead task, which has left its CPU, to the reaper. Interrupts off, no locks.
void reaper_take(Task& task);
// Sets up task cache, task list and reaper.
void tasks_init();
// Registers the tasks that wait for sleeping locks, for #mem/unreachable.
void lock_waits_init();
// Starts the task that runs the memory core's timer.
void memory_task_init();
// The task's sleep between two checks for low memory; a change takes effect with the next sleep.
// Fifteen sleeps make an interval. A second, but in tests.
inline constexpr Nanoseconds kMemoryLook{1'000'000'000};
void memory_task_set_look(Nanoseconds look);

// Starts the task that runs the sweeper of stacks and contexts (store/sweeper.h). The second runs
// in each tick on each CPU, interrupts off, and wakes the task if a sweep is wanted.
void sweep_task_init();
void sweep_task_tick();
// Gets the trace numbers that the next tasks remember, beginning with the first task if `first`.
// Returns how many; 0 at the end. Idle tasks are excluded. One caller at a time; takes the list's
// lock.
inline constexpr size_t kRememberedAtOnce = 32;
size_t tasks_remembered(bool first, TraceNumbers (&numbers)[kRememberedAtOnce]);
// The idle task of a CPU, which may be offline.
const Task& idle_task(unsigned cpu);

// Waits for an interrupt on a CPU without runnable tasks; interrupts off before, on after.
void idle_wait();
// For emulators that count instructions: icount.cc. The second runs in each tick, interrupts off.
void icount_init();
void icount_tick();

// Runs the due timers of this CPU. In the tick.
void timers_run();
