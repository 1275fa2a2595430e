// A thread: what of a process belongs to one flow of control. The theory is in process.cc.
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

// What becomes of a system call that a signal interrupted: Thread.restart, which a call that
// differs from most sets when it begins.
enum class Restart : uint8_t {
  kNone,           // it was not interrupted
  kAfterHandler,   // made again, after a handler too if that has SA_RESTART
  kUnlessHandled,  // made again unless a handler ran
  kAlways,         // made again, after any handler
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
  bool restarted = false;      // the system call at hand is made again
  Nanoseconds sleep_deadline;  // of the nanosleep or poll at hand, for when it is made again
  abi_stack signal_stack{.base = 0, .flags = ABI_SS_DISABLE, .size = 0};
  uint64_t id_address = 0;  // abi_thread::id
  uint64_t minor_faults = 0, major_faults = 0;

  // Under process_lock.
  ListNode link;           // threads of the process
  PendingSignals signals;  // for this thread alone
  uint64_t blocked = 0;
  uint64_t awaited = 0;  // what sigtimedwait waits for
  WaitQueue signal_wait;
  uint64_t forced = 0;      // of the pending: because of a fault of its own, so that process 1
                            // cannot ignore it
  uint64_t saved_mask = 0;  // what sigsuspend put away
  bool has_saved_mask = false;
};

// The current thread, from its own task.
inline Thread& self_thread() {
  return *current_task()->thread;
}

// A thread of `process`, among its threads, that will enter user mode with `frame`; not started.
// Its registers are those of a program that starts. EINTR when the process ends, ENOMEM.
Result<Thread*> thread_create(Process& process, const TrapFrame& frame);
// Takes a thread that was never started away again.
void thread_discard(Thread* thread);
// Lets the thread run.
void thread_start(Thread& thread);
// Ends the current thread; with the last one ends the process.
[[noreturn]] void thread_exit();
// Ends all other threads of the current process and waits until they have gone. EINTR when the
// process ends, or another thread does the same.
Result<void> threads_end_others();

// Whether the thread is to end before it goes back to user mode.
bool thread_ends(const Thread& thread) REQUIRES(process_lock);
// Makes each thread of the process but `but` look at its signals, and what else it is to do before
// it goes back to user mode.
void threads_interrupt(Process& process, const Thread* but = nullptr) REQUIRES(process_lock);
// What it has used so far.
Usage thread_usage(const Thread& thread) REQUIRES(process_lock);

// Once.
void threads_init();
