// Shared by the files of the scheduler.
#pragma once

#include "intern/current_context.h"
#include "sched/task.h"

// The state in which the current task leaves the CPU.
enum class Leave : uint8_t { kRunnable, kAsleep, kDead };

// The lock of this CPU's run queue. Interrupts are off. A task that leaves the CPU takes the lock,
// and the next task releases it. Before run_queue_wake queues a task, it takes the lock of the CPU
// where the task last ran. So the task cannot run on another CPU before it has left that CPU.
class CAPABILITY("run queue") ThisRunQueue {
 public:
  void lock() ACQUIRE();
  void unlock() RELEASE();
};
inline constinit ThisRunQueue this_run_queue;
// Switches to the next task. Returns when the calling task runs again, maybe on another CPU, with
// the run queue unlocked. Interrupts are off at the call and at the return.
void run_queue_switch(Leave leave) RELEASE(this_run_queue);
// Makes a sleeping task (kSleeping) runnable. Of several concurrent callers the first succeeds; the
// others do nothing. Any context.
void run_queue_wake(Task& task);
// Puts a task that is on no run queue onto one. Any context.
void run_queue_add(Task& task);

// The first function that a task runs on its stack. `task` is a Task.
void task_begin(void* task) RELEASE(this_run_queue);
// Hands a dead task, which has left its CPU, to the reaper. Interrupts off, no locks.
void reaper_take(Task& task);
// Sets up task cache, task list and reaper.
void tasks_init();
// Registers functions with which #mem/unreachable finds the tasks that wait for sleeping locks.
void lock_waits_init();
// Starts the task that does the allocator's periodic work (memory_task.cc).
void memory_task_init();
// Sets how long the allocator's task sleeps between two checks for low memory, from the next
// sleep on. The task calls kmem_update() after every fifteenth sleep. The length is kMemoryLook
// except in tests.
inline constexpr Nanoseconds kMemoryLook{1'000'000'000};
void memory_task_set_look(Nanoseconds look);

// Starts the task that runs the sweeper of stacks and contexts (intern/sweeper.h).
void sweep_task_init();
// Wakes the sweeper's task if a sweep is wanted. Runs in each tick on each CPU, interrupts off.
void sweep_task_tick();
// Stores the trace numbers (intern/current_context.h) of up to kRememberedAtOnce tasks. Begins with
// the first task of the task list if `first` is true, otherwise after the last task of the previous
// call. Returns the number of tasks; 0 at the end of the list. Idle tasks are not in the list. One
// caller at a time; takes the list's lock.
inline constexpr size_t kRememberedAtOnce = 32;
size_t tasks_remembered(bool first, TraceNumbers (&numbers)[kRememberedAtOnce]);
// The idle task of a CPU, which may be offline.
const Task& idle_task(CpuId cpu);

// Waits for an interrupt on a CPU without runnable tasks. Interrupts are off at the call and on at
// the return.
void idle_wait();
// For emulators that count instructions (icount.cc): reads the option `icount`.
void icount_init();
// Lets the emulator run another CPU. Runs in each tick, with interrupts off.
void icount_tick();

// Runs the due timers of this CPU, at most kMaxTimersPerTick. Called in each tick, with interrupts
// off.
void timers_run();
