// Tasks: threads of the kernel. A process is a task with a Process; a kernel task has none.
#pragma once

#include <atomic>
#include <cstdint>

#include "abi/errno.h"
#include "arch/x86_64/context.h"
#include "core/cpu.h"
#include "core/spinlock.h"
#include "lib/list.h"
#include "lib/result.h"
#include "lib/units.h"

struct Process;
class WaitQueue;

enum class TaskState : uint8_t { kRunnable, kRunning, kSleeping, kDead };

// Which of its allocations a task wants to fail (`failnext` of #debug).
struct FaultOrder {
  uint64_t skip;    // the next ones that succeed
  uint64_t fail;    // after them, those that fail
  uint64_t failed;  // since the order was given
};

// In Task::trace_call: the trap frame at the top of the kernel stack is of an entry from user mode.
inline constexpr uint64_t kTraceFromUser = uint64_t{1} << 63;

struct Task {
  char name[32];
  uint32_t id;
  std::atomic<TaskState> state;
  Process* process;  // nullptr for a kernel task
  uint32_t pid;      // of the process, for the tracer; 0 for a kernel task
  // What the tracer remembers (src/store/context.cc); 0 in a new task. The task's own, with
  // interrupts off.
  uint32_t trace_base;  // context of what it is, without a user stack
  uint64_t trace_call;  // context of the system call or fault under way; kTraceFromUser after each
                        // return to user mode
  uint32_t trace_cut;   // the same, if its user stack is deeper than what is recorded
  char error_string[ABI_ERRSTR_MAX];
  FaultOrder fault_order;  // the task's own

  // Run queue lock of the CPU that the task is on.
  uint32_t cpu;
  bool pinned;  // stays on its CPU
  ListNode run_link;
  uint32_t slice;  // ticks left

  ListNode wait_link;               // lock of the wait queue that the task is on
  std::atomic<bool> interruptible;  // the sleep that the task is in ends when `interrupted` is set
  std::atomic<bool> interrupted;    // a signal waits: interruptible sleeps end at once
  uint64_t held_mutexes;  // bit for each lock rank of the mutexes held (CONFIG_LOCK_RANK_CHECK)
  uint64_t user_ticks, system_ticks;

  // Context switch only.
  Context context;
  uint64_t stack_base;  // lowest address of the kernel stack, above its guard page
  void* stack_memory;   // the same in the direct map; nullptr for an idle task
  FpuState* fpu;  // saved and restored when the task leaves and gets the CPU; nullptr for a kernel
                  // task. The process's
  void (*entry)(void*);
  void* argument;
  ListNode all_link;  // list of all tasks
  bool exiting;       // counted by task_will_exit

  uint64_t stack_top() const { return stack_base + kKernelStackSize; }
};

// Makes the boot CPU's idle task current (so that what calls it has the lowest priority and must
// not sleep); later each CPU calls sched_start_cpu and never returns. Memory is there, interrupts
// may be on or off.
void sched_init();
[[noreturn]] void sched_start_cpu();
// What loads the address space of a task's process on this CPU when the task gets it. Called with
// interrupts off and a run queue locked: it takes no lock. Kernel tasks run on the kernel's own
// tables.
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
// Ends the current task; its stack and structure are freed by a reaper task. A process has set
// `process` and `fpu` to nullptr before it frees what they point at.
[[noreturn]] void task_exit();
// `leave` is called in each task that ends, by task_exit; it may sleep. There is one, set at boot.
void task_register_exit(void (*leave)(Task&));
// Makes task_drain_dead wait for the current task from now on: called before others can see that it
// is about to end.
void task_will_exit();
// Gives the CPU away.
void task_yield();
// Called from the tick and at the end of interrupts when need_resched is set and preemption is
// allowed.
void schedule();
// Sets `interrupted` and wakes the task if it sleeps interruptibly. Any context.
void task_interrupt(Task* task);
// Sleeps; EINTR if interrupted. May sleep.
Result<void> task_sleep_until(Nanoseconds deadline);
// All tasks, under the scheduler's list lock: visit must not sleep.
void task_for_each(void (*visit)(Task& task, void* argument), void* argument);
// Blocks until every task that has exited has been freed (for `settle`). May sleep.
void task_drain_dead();

// Where tasks wait for something to become true.
class WaitQueue {
 public:
  constexpr WaitQueue() = default;
  // Sleeps until condition() is true. `guard_lock` protects what the condition reads: it is held by
  // the caller when called and on return, and dropped while asleep. Interruptible: EINTR when a
  // signal waits (the lock is held then too). Deadline: ETIMEDOUT.
  template <typename Condition>
  Result<void> wait(Spinlock& guard_lock, Condition condition, Nanoseconds deadline = {UINT64_MAX})
      REQUIRES(guard_lock) NO_THREAD_SAFETY_ANALYSIS {
    while (!condition()) {
      TRY(sleep(guard_lock, true, deadline));
    }
    return {};
  }
  template <typename Condition>
  void wait_uninterruptible(Spinlock& guard_lock, Condition condition)
      REQUIRES(guard_lock) NO_THREAD_SAFETY_ANALYSIS {
    while (!condition()) static_cast<void>(sleep(guard_lock, false, {UINT64_MAX}));
  }
  // Any context. The caller may hold locks of a rank above kWaitQueue.
  void wake_one();
  void wake_all();

 private:
  // Goes to sleep in one step with dropping the lock; takes the lock again before it returns. To be
  // called with interrupts off by exactly one Guard on guard_lock.
  Result<void> sleep(Spinlock& guard_lock, bool interruptible, Nanoseconds deadline);

  Spinlock lock_{LockRank::kWaitQueue};
  List<Task, &Task::wait_link> waiters_;
};

// A lock that sleeps. Not for interrupts.
class CAPABILITY("mutex") Mutex {
 public:
  constexpr explicit Mutex(LockRank rank) : rank_(rank), state_lock_(LockRank::kDevice) {}
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;
  void lock() ACQUIRE();
  // True if it was free, for whatever ranks are held. Task context, interrupts on or off; does not
  // sleep.
  bool try_lock() TRY_ACQUIRE(true);
  void unlock() RELEASE();
  bool held() const { return owner_ == current_task(); }

 private:
  const LockRank rank_;
  Spinlock state_lock_;
  Task* owner_ = nullptr;
  WaitQueue waiters_;
};

class SCOPED_CAPABILITY MutexGuard {
 public:
  explicit MutexGuard(Mutex& mutex) ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
  ~MutexGuard() RELEASE() { mutex_.unlock(); }
  MutexGuard(const MutexGuard&) = delete;
  MutexGuard& operator=(const MutexGuard&) = delete;

 private:
  Mutex& mutex_;
};
