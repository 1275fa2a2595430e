// Tasks, which the scheduler runs. Each thread of a process has a task; a kernel task has no
// process.
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

// Fault injection for a task: the allocations that shall fail (`failnext` of #debug).
struct FaultInjection {
  uint64_t skip = 0;    // number of allocations that still succeed
  uint64_t fail = 0;    // number of allocations that fail after these
  uint64_t failed = 0;  // number of failures since the command was given
  // For a sweep (drivers/dev/debug_failnext.cc): the task's process number in the sweep, from 1 on.
  // Each thread of a process has a different number. 0: the task is not part of a sweep.
  uint32_t process = 0;
};

struct Task : TaskHead {
  Thread* thread;  // the process's thread; nullptr for a kernel task
  std::atomic<TaskState> state;
  char error_string[ABI_ERRSTR_MAX];
  FaultInjection fault_injection;  // once the task runs, others only read it
#ifdef CONFIG_COVERAGE
  HeldRef<CoverageMap>
      coverage;  // records the task's coverage (sched/coverage.h). Only the task uses it
#endif

  // Guarded by the run queue lock of the CPU that the task is on.
  CpuId cpu;
  CpuId ran_on;  // CPU on which the task ran last
  bool pinned;   // stays on its CPU
  ListNode run_link;
  int64_t slice;  // what is left of the time slice; < 0: the task ran longer. Time stamp counter

  std::atomic<bool> interruptible;  // the current sleep ends when `interrupted` is set
  std::atomic<bool> interrupted;    // a signal is pending: interruptible sleeps end at once
  const Mutex* waits_for;  // the mutex that the task waits for; only the task itself sets this
  uint64_t held_mutexes;   // a bit for the rank of each held mutex (CONFIG_LOCK_RANK_CHECK)
  // CPU time, counted by the time stamp counter, up to the last tick or switch (run_queue.cc). Only
  // the CPU that runs the task writes it.
  uint64_t user_time, system_time;
  uint64_t told_user_time, told_system_time;  // the part that the CPU time hook has got
  bool was_in_kernel;                         // the last tick found the task in the kernel
  uint64_t voluntary_switches, involuntary_switches;
  int32_t extra_slice;  // ticks by which a slice is longer (> 0) or shorter (< 0) than usual

  Context context;      // stack pointer while the task does not run; registers lie on the stack
  uint64_t stack_base;  // lowest address of the kernel stack, above its guard page
  void* stack_memory;   // the stack's address in the direct map; nullptr for an idle task
  // The thread's registers that the kernel itself does not use: x87, SSE and so on, and FS base.
  // nullptr for a kernel task, and after task_leave_process().
  UserRegisters* user_registers;
  void (*entry)(void*);
  void* argument;
  ListNode all_link;  // list of all tasks
  bool exiting;       // task_will_exit() was called for the task

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

// Makes the caller the idle task of the boot CPU. An idle task has the lowest priority and must not
// sleep. sched_init() is called when memory is set up; interrupts may be on or off. Later each CPU
// calls sched_start_cpu(), which never returns.
void sched_init();
[[noreturn]] void sched_start_cpu();
// Registers the function activate(process). The scheduler calls activate() when a task of `process`
// gets a CPU; activate() then loads the process's address space on this CPU. For a kernel task
// `process` is nullptr, and activate() loads the kernel's own tables. activate() is called with
// interrupts off and a run queue locked, so it takes no lock.
void sched_register_activate(void (*activate)(Process* process));

// Registers the function that gets the CPU time of a task: `user` and `system` are what the task
// has used since the last call. It is called in the task, in each tick, and when the task gets a
// CPU again after it has used as much as a tick. Interrupts are off and no lock is held. Called
// once, at boot.
void sched_register_cpu_time(void (*used)(Task& task, Nanoseconds user, Nanoseconds system));
// Charges the current task for the time up to now. Interrupts off.
void task_charge();

// Allocates a kernel stack: memory of the page arena, mapped above a guard page. ENOMEM. May sleep.
struct KernelStack {
  uint64_t base;  // lowest address, above the guard page
  void* memory;   // the stack's address in the direct map
};
Result<KernelStack> kernel_stack_alloc();
void kernel_stack_free(const KernelStack& stack);

// Makes a task that is not yet runnable. The caller may set Task::process before task_start().
// ENOMEM. May sleep.
Result<Task*> task_create(const char* name, void (*entry)(void*), void* argument);
// Makes the task runnable. The task stays on CPU `cpu`; with kAnyCpu it may run on any CPU.
inline constexpr CpuId kAnyCpu{UINT32_MAX};
void task_start(Task* task, CpuId cpu = kAnyCpu);
// Frees a task that was created and never started.
void task_discard(Task* task);
// Ends the current task; a reaper task frees its stack and structure. A thread calls
// task_leave_process first.
[[noreturn]] void task_exit();
// Registers the function that task_exit calls in each ending task; it may sleep. Called once, at
// boot.
void task_register_exit(void (*leave)(Task&));
// Called in the task `parent` for its new task `child`, before `child` runs: by fork, and when a
// process makes a thread.
void task_forked(Task& parent, Task& child);
// Registers the function that task_forked calls; this function cannot fail and must not sleep.
// Called once, at boot.
void task_register_fork(void (*inherit)(Task& parent, Task& child));
// Makes task_drain_dead wait for the current task from now on. Called before others can see that
// the task is about to end.
void task_will_exit();
// Separates the current task from its thread and process, which may then be freed: from now on the
// task runs on the kernel's page tables and points to neither its thread nor its process.
void task_leave_process();
// Yields the CPU to other tasks.
void task_yield();
// Switches to another runnable task, if there is one. Called at the end of an interrupt if
// need_resched is set and preemption is allowed, before the return to a program, and to yield the
// CPU.
void schedule();
// Sets `interrupted` and wakes the task if it sleeps interruptibly. Any context.
void task_interrupt(Task* task);
// Calls visit() for all tasks. The list of tasks is locked by a spinlock, so visit() must not
// sleep.
void task_for_each(void (*visit)(Task& task, void* argument), void* argument);
// Stores the return addresses on the task's kernel stack, innermost first, and returns their
// number. The task must not be running. The caller must keep the task from being freed: it runs
// inside task_for_each(), or all CPUs are stopped.
size_t task_walk_stack(const Task& task, uint64_t* program_counters, size_t max);
// Waits until all tasks that have called task_will_exit() are freed. For `settle`
// (trace/control/settle_impl.h). May sleep.
void task_drain_dead();
