// A thread: the state of one flow of control in a process. The theory is in thread.cc.
#pragma once

#include <cstdint>

#include "abi/syscall.h"
#include "arch/x86_64/trap.h"
#include "arch/x86_64/user_registers.h"
#include "lib/list.h"
#include "lib/result.h"
#include "lib/units.h"
#include "proc/pending_signals_impl.h"
#include "proc/user_account.h"
#include "sched/task.h"

struct Process;
struct Usage;

// How an interrupted system call continues (Thread::restart). The value is kAfterHandler when a
// call begins; the call may change it.
enum class Restart : uint8_t {
  kNone,           // the call was not interrupted
  kAfterHandler,   // restarted if no handler ran, or if the handler has SA_RESTART
  kUnlessHandled,  // restarted if no handler ran
  kAlways,         // restarted in any case
};

// The memory of a thread contains a Thread, these bytes, and an FpuState. Programs choose the
// values in the last two, so these are not searched for pointers.
struct ThreadBytes {
  TrapFrame start_frame;  // the registers with which the thread first enters user mode
  char transfer[256];     // for a system call that copies a few bytes
};

struct Thread {
  Thread(Process& owner, const TrapFrame& frame) : process(owner) { bytes().start_frame = frame; }

  Process& process;
  Task* task = nullptr;
  uint32_t id() const { return task->id; }

  // Used by the thread's own task only.
  ThreadBytes& bytes() { return *reinterpret_cast<ThreadBytes*>(this + 1); }
  UserRegisters user_registers;  // valid while the task is on no CPU
  int64_t call_number = -1;
  Restart restart = Restart::kNone;
  bool restarted = false;      // the current system call is a restarted one
  Nanoseconds sleep_deadline;  // deadline of the current nanosleep or poll, for its restart
  abi_stack signal_stack{.base = 0, .flags = ABI_SS_DISABLE, .unused = 0, .size = 0};
  uint64_t id_address = 0;  // user address from abi_thread::id; 0: none
  uint64_t minor_faults = 0, major_faults = 0;

  // Under process_lock.
  ListNode link;           // in the process's list of threads
  PendingSignals signals;  // signals for this thread alone
  uint64_t blocked = 0;
  uint64_t awaited = 0;  // signals that sigtimedwait waits for
  WaitQueue signal_wait;
  uint64_t forced = 0;      // pending signals of signal_force(); process 1 cannot ignore them
  uint64_t saved_mask = 0;  // the mask that TemporaryMask has replaced
  bool has_saved_mask = false;

  Charge charge;
};

// The name of a thread in the log: "pid 3 sh" for the first thread of a process, "pid 3 thread 17
// sh" for any other thread.
struct ThreadName {
  explicit ThreadName(const Thread& thread);
  char text[64];
};

// Returns the current thread. Called only by a task of a process.
inline Thread& self_thread() {
  return *current_task()->thread;
}

// Makes a thread of `process` that will enter user mode with `frame`. The new thread is in the
// process's list of threads, and is not started yet. Registers that `frame` does not contain have
// their initial values. EAGAIN if the user of the current process may have no more threads; EINTR
// if the process ends or another thread is ending all others (exec); ENOMEM.
Result<Thread*> thread_create(Process& process, const TrapFrame& frame);
// Removes a thread that was never started.
void thread_discard(Thread* thread);
// Lets the thread run.
void thread_start(Thread& thread);
// Ends the current thread, and the process if this is its last thread.
[[noreturn]] void thread_exit();
// Ends all other threads of the current process and waits until they are gone. EINTR when the
// process ends, or another thread is ending all others.
Result<void> threads_end_others();

// True if the thread must end before it returns to user mode.
bool thread_ends(const Thread& thread) REQUIRES(process_lock);
// Interrupts each thread of the process except `but`. Before an interrupted thread returns to user
// mode, it checks its signals and whether it must stop or end.
void threads_interrupt(Process& process, const Thread* but = nullptr) REQUIRES(process_lock);
// Returns the resources that the thread has used so far.
Usage thread_usage(const Thread& thread) REQUIRES(process_lock);

// Creates the cache of threads. Once, at boot.
void threads_init();
