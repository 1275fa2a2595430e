// Tasks: what the scheduler runs. Each thread of a process has one; a kernel task has no process.
#pragma once

#include <atomic>
#include <cstdint>

#include "abi/errno.h"
#include "arch/x86_64/context.h"
#include "arch/x86_64/user_registers.h"
#include "core/cpu.h"
#include "core/ref.h"
#include "core/sleep.h"
#include "core/task_head.h"
#include "lib/list.h"
#include "lib/result.h"
#include "lib/units.h"

class CoverageMap;
struct Thread;

enum class TaskState : uint8_t { kRunnable, kRunning, kSleeping, kDead };

// Which of its allocations a task wants to fail (`failnext` of #debug).
struct FaultInjection {
  uint64_t skip = 0;    // the next ones that succeed
  uint64_t fail = 0;    // after them, those that fail
  uint64_t failed = 0;  // since the order was given
  // Its number among the processes of a sweep, from 1 on; 0: it is none of them.
  uint32_t process = 0;
};

struct Task : TaskHead {
  Thread* thread;  // of the process; nullptr for a kernel task
  std::atomic<TaskState> state;
  char error_string[ABI_ERRSTR_MAX];
  FaultInjection fault_injection;  // the task's own
#ifdef CONFIG_COVERAGE
  HeldRef<CoverageMap> coverage;  // where the task records (sched/coverage.h). Its own
#endif

  // Run queue lock of the CPU that the task is on.
  uint32_t cpu;
  bool pinned;  // stays on its CPU
  ListNode run_link;
  uint32_t slice;  // ticks left

  std::atomic<bool> interruptible;  // the sleep that the task is in ends when `interrupted` is set
  std::atomic<bool> interrupted;    // a signal waits: interruptible sleeps end at once
  const Mutex* waits_for;           // while the task waits for one that another task has. Its own
  uint64_t held_mutexes;  // bit for each lock rank of the mutexes held (CONFIG_LOCK_RANK_CHECK)
  uint64_t user_ticks, system_ticks;
  uint64_t voluntary_switches, involuntary_switches;
  int32_t extra_slice;  // ticks that it gets more, or fewer, than others

  // Context switch only.
  Context context;
  uint64_t stack_base;            // lowest address of the kernel stack, above its guard page
  void* stack_memory;             // the same in the direct map; nullptr for an idle task
  UserRegisters* user_registers;  // saved when the task leaves the CPU, loaded when it gets it;
                                  // nullptr for a kernel task. The thread's
  void (*entry)(void*);
  void* argument;
  ListNode all_link;  // list of all tasks
  bool exiting;       // counted by task_will_exit

  uint64_t stack_top() const {
    return stack_base + kKernelStackSize;
  }
};

// The task that a CPU runs; nullptr before it has one.
inline Task* task_on(const Cpu& cpu) {
  return static_cast<Task*>(cpu.current);
}
inline Task* current_task() {
  return static_cast<Task*>(current_task_head());
}

// Makes the boot CPU's idle task current (so that what calls it has the lowest priority and must
// not sleep); later each CPU calls sched_start_cpu and never returns. Memory is there, interrupts
// may be on or off.
void sched_init();
[[noreturn]] void sched_start_cpu();
// What loads the address space of a task's process on this CPU when the task gets it; nullptr: the
// kernel's own tables, on which kernel tasks run. Called with interrupts off and a run queue
// locked: it takes no lock.
void sched_register_activate(void (*activate)(Process* process));

// A kernel stack: memory of the page arena, mapped above a guard page. ENOMEM. May sleep.
struct KernelStack {
  uint64_t base;  // lowest address, above the guard page
  void* memory;   // the same in the direct map
};
Result<KernelStack> kernel_stack_alloc();
void kernel_stack_free(const KernelStack& stack);

// Makes a task that is not yet runnable; `process` may be set before task_start. ENOMEM. May sleep.
Result<Task*> task_create(const char* name, void (*entry)(void*), void* argument);
// On CPU `cpu` for good, or (kAnyCpu) wherever the scheduler likes.
inline constexpr uint32_t kAnyCpu = UINT32_MAX;
void task_start(Task* task, uint32_t cpu = kAnyCpu);
// Frees a task that was created and never started.
void task_discard(Task* task);
// Ends the current task; its stack and structure are freed by a reaper task. A thread has called
// task_leave_process before.
[[noreturn]] void task_exit();
// `leave` is called in each task that ends, by task_exit; it may sleep. There is one, set at boot.
void task_register_exit(void (*leave)(Task&));
// What a process that forks does for its child's task before that runs; the caller is `parent`.
void task_forked(Task& parent, Task& child);
// `inherit` is called by task_forked; it cannot fail and must not sleep. There is one, set at boot.
void task_register_fork(void (*inherit)(Task& parent, Task& child));
// Makes task_drain_dead wait for the current task from now on: called before others can see that it
// is about to end.
void task_will_exit();
// The current task is its thread's no more: from now on it runs on the kernel's tables, and nobody
// goes from it to the thread or the process, which may be freed.
void task_leave_process();
// Gives the CPU away.
void task_yield();
// Called from the tick and at the end of interrupts when need_resched is set and preemption is
// allowed.
void schedule();
// Sets `interrupted` and wakes the task if it sleeps interruptibly. Any context.
void task_interrupt(Task* task);
// All tasks, under the scheduler's list lock: visit must not sleep.
void task_for_each(void (*visit)(Task& task, void* argument), void* argument);
// The return addresses on the kernel stack of a task that does not run, and does not begin to,
// innermost first; how many. A list lock held, or all CPUs stopped, keeps the task.
size_t task_walk_stack(const Task& task, uint64_t* program_counters, size_t max);
// Blocks until every task that has exited has been freed (for `settle`). May sleep.
void task_drain_dead();
