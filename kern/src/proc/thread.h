// A thread: the state of one flow of control in a process. The theory is in thread.cc.
#pragma once

#include <cstdint>

#include "abi/syscall.h"
#include "arch/x86_64/trap.h"
#include "arch/x86_64/user_registers.h"
#include "lib/list.h"
#include "lib/result.h"
#include "lib/units.h"
#include "proc/pending_signals.h"
#include "sched/task.h"

struct Process;
struct Usage;

// How an interrupted system call continues: Thread.restart, which a call sets at its start if it
// differs from the usual.
enum class Restart : uint8_t {
  kNone,           // it was not interrupted
  kAfterHandler,   // restarted, after a handler only if that has SA_RESTART
  kUnlessHandled,  // restarted unless a handler ran
  kAlways,         // restarted, after any handler
};

struct Thread {
  Thread(Process& owner, const TrapFrame& frame) : process(owner), start_frame(frame) {}

  Process& process;
  Task* task = nullptr;
  uint32_t id() const { return task->id; }

  // The thread's own task only.
  UserRegisters user_registers;  // while the task is off its CPU
  TrapFrame start_frame;         // where it enters user mode
  int64_t call_number = -1;
  Restart restart = Restart::kNone;
  bool restarted = false;      // the current system call is a restarted one
  Nanoseconds sleep_deadline;  // of the current nanosleep or poll, for its restart
  abi_stack signal_stack{.base = 0, .flags = ABI_SS_DISABLE, .size = 0};
  uint64_t id_address = 0;  // abi_thread::id
  uint64_t minor_faults = 0, major_faults = 0;

  // Under process_lock.
  ListNode link;           // threads of the process
  PendingSignals signals;  // for this thread alone
  uint64_t blocked = 0;
  uint64_t awaited = 0;  // signals that sigtimedwait waits for
  WaitQueue signal_wait;
  uint64_t forced = 0;      // pending ones from faults of its own; process 1 cannot ignore these
  uint64_t saved_mask = 0;  // the mask that sigsuspend replaced
  bool has_saved_mask = false;
};

// How the log names a thread: "pid 3 sh" the first one, "pid 3 thread 17 sh" any other.
struct ThreadName {
  explicit ThreadName(const Thread& thread);
  char text[64];
};

// The current thread, from its own task.
inline Thread& self_thread() {
  return *current_task()->thread;
}

// Makes a thread of `process` that will enter user mode with `frame`; it is in the list of threads,
// and not started. Its registers are in their initial state. EINTR when the process ends, ENOMEM.
Result<Thread*> thread_create(Process& process, const TrapFrame& frame);
// Removes a thread that was never started.
void thread_discard(Thread* thread);
// Lets the thread run.
void thread_start(Thread& thread);
// Ends the current thread; with the last one ends the process.
[[noreturn]] void thread_exit();
// Ends all other threads of the current process and waits until they are gone. EINTR when the
// process ends, or another thread does the same.
Result<void> threads_end_others();

// True if the thread must end before it returns to user mode.
bool thread_ends(const Thread& thread) REQUIRES(process_lock);
// Makes each thread of the process but `but` check its signals, and its other duties before it
// returns to user mode.
void threads_interrupt(Process& process, const Thread* but = nullptr) REQUIRES(process_lock);
// Returns the resources that it has used so far.
Usage thread_usage(const Thread& thread) REQUIRES(process_lock);

// Once.
void threads_init();
