// Signals.
//
// A sent signal is pending (pending_signals_impl.h) for a process or for one thread until it is
// taken. A signal to a thread ends the thread's interruptible sleep (task_interrupt), unless the
// thread blocks the signal. A signal to a process interrupts one thread that does not block the
// signal; if all threads block it, the first thread to unblock it takes it. If a thread was
// interrupted for a signal of the process, and then blocks the signal or ends, it interrupts
// another thread instead.
//
// Real-time signals of sigqueue and signals of POSIX timers carry a value of their own and are
// queued. sigqueue allocates the QueuedSignal before it takes process_lock, and a process has at
// most kMaxQueued of them. The QueuedSignal of a timer is part of the timer.
//
// Each thread handles signals itself, in signals_before_user, before it returns to user mode.
// signals_before_user takes the pending signals one by one: SIGKILL first, then the signal with the
// lowest number. For each signal, the function ends the process, stops the process, or builds a
// frame for the handler on the user stack. When a process must stop or end, all its threads are
// interrupted, and each of them waits or ends in signals_before_user. A signal that the process
// ignores is dropped when it is sent, unless a thread blocks the signal or waits for it.
//
// A system call that a signal interrupted ends with EINTR. Thread::restart says when the call is
// restarted instead. By default the call is restarted if no handler ran, or if the handler has
// SA_RESTART. To restart the call, the kernel sets the program counter back to the `syscall`
// instruction.
#include "arch/x86_64/interrupts.h"
#include "core/log.h"
#include "proc/process_impl.h"
#include "proc/user_log_impl.h"

namespace {

constexpr uint64_t bit(int signal) {
  return signal_bit(signal);
}
constexpr uint64_t kStops =
    bit(ABI_SIGSTOP) | bit(ABI_SIGTSTP) | bit(ABI_SIGTTIN) | bit(ABI_SIGTTOU);
constexpr uint64_t kIgnored =
    bit(ABI_SIGCHLD) | bit(ABI_SIGCONT) | bit(ABI_SIGURG) | bit(ABI_SIGWINCH);
constexpr uint64_t kSyscallInstructionSize = 2;
constexpr int kStatusContinued = 0xffff;

enum class Disposition : uint8_t { kIgnore, kStop, kEnd, kHandle };

// Returns the effect of `signal` on the process. `forced`: the mask of signals that process 1
// cannot ignore (Thread::forced).
Disposition disposition(const Process& process, int signal, uint64_t forced = 0)
    REQUIRES(process_lock) {
  const uint64_t handler = process.actions[signal].handler;
  if (handler == ABI_SIG_IGN) return Disposition::kIgnore;
  if (handler != ABI_SIG_DFL) return Disposition::kHandle;
  if (bit(signal) & kIgnored) return Disposition::kIgnore;
  if (process.pid == kInitPid && !(forced & bit(signal))) return Disposition::kIgnore;
  return bit(signal) & kStops ? Disposition::kStop : Disposition::kEnd;
}

int stopped_status(int signal) {
  return signal << 8 | 0x7f;
}

// True if the thread blocks the signal or waits for it. The signal then becomes pending even if the
// process ignores it.
bool keeps(const Thread& thread, int signal) REQUIRES(process_lock) {
  return (thread.blocked | thread.awaited) & bit(signal);
}

// Performs the immediate effects of sending a signal: SIGKILL and SIGCONT discard pending stop
// signals and continue a stopped process; a stop signal discards a pending SIGCONT. False if the
// process is ending and can take no signal any more.
// stack: recursion up to 1 deep, because the parent gets SIGCHLD, which continues no process.
bool arrives(Process& process, int signal) REQUIRES(process_lock) {
  if (process.state != ProcessState::kAlive || process.ending) return false;
  // Stays empty: only SIGCONT and stop signals are discarded below, and sigqueue does not queue
  // these signals.
  SignalQueue dropped;
  if (signal == ABI_SIGKILL || signal == ABI_SIGCONT) {
    signal_discard(process, kStops, dropped);
    if (process.stopped) {
      process.stopped = false;
      process.stop_wait.wake_all();
      if (signal == ABI_SIGCONT) {
        process.continued = true;
        signal_parent(process, kStatusContinued);
      }
    }
  }
  if (bit(signal) & kStops) signal_discard(process, bit(ABI_SIGCONT), dropped);
  return true;
}

// False if no thread would notice `signal`: the process ignores `signal`, and no thread blocks it
// or waits for it. A timer may send an ignored signal in every tick, to a process of a thousand
// threads. So after one search Process::unkept gives the answer, until a thread keeps the signal.
bool is_noticed(Process& process, int signal) REQUIRES(process_lock) {
  if (!signal_is_ignored(process, signal)) return true;
  if (process.unkept & bit(signal)) return false;
  for (const Thread& thread : process.threads) {
    if (keeps(thread, signal)) return true;
  }
  process.unkept |= bit(signal);
  return false;
}

// Makes a signal to the group of `parent` pending for a child that the parent is just forking. The
// child has no thread that runs yet, so nothing is told.
void post_to_forked(Process& parent, Process& child, int signal, const SignalInfo& info)
    REQUIRES(process_lock) {
  SignalQueue dropped;  // stays empty, as in arrives()
  if (signal == ABI_SIGKILL || signal == ABI_SIGCONT) child.signals.discard(kStops, dropped);
  if (bit(signal) & kStops) child.signals.discard(bit(ABI_SIGCONT), dropped);
  if (is_noticed(parent, signal)) child.signals.add(signal, info);
}

// Called when `signal` has become pending for the thread. Wakes the thread if it waits for
// `signal`, and interrupts the thread unless it blocks `signal`.
void tell(Thread& thread, int signal) REQUIRES(process_lock) {
  if (thread.awaited & bit(signal)) thread.signal_wait.wake_all();
  if (!(thread.blocked & bit(signal))) task_interrupt(thread.task);
}

// Called when `signal` is pending for the process. Tells one thread, other than `but`: a thread
// that waits for `signal`, or else a thread that does not block it.
void tell_one(Process& process, int signal, const Thread* but = nullptr) REQUIRES(process_lock) {
  Thread* found = nullptr;
  for (Thread& thread : process.threads) {
    if (&thread == but) continue;
    if (thread.awaited & bit(signal)) {
      found = &thread;
      break;
    }
    if (!found && !(thread.blocked & bit(signal))) found = &thread;
  }
  if (found) tell(*found, signal);
}

void stop(Process& process, int signal) REQUIRES(process_lock) {
  process.stopped = true;
  process.stop_told = false;
  process.stop_reported = false;
  process.continued = false;
  process.stop_signal = signal;
  threads_interrupt(process);
}

// Tells the parent that the process has stopped, if all threads have halted.
void tell_stop(Process& process) REQUIRES(process_lock) {
  if (!process.stopped || process.stop_told || process.halted_threads < process.thread_count)
    return;
  process.stop_told = true;
  signal_parent(process, stopped_status(process.stop_signal));
}

void wait_while_stopped(Thread& thread) REQUIRES(process_lock) {
  Process& process = thread.process;
  process.halted_threads++;
  tell_stop(process);
  process.stop_wait.wait_uninterruptible(process_lock, [&]() REQUIRES(process_lock) {
    return !process.stopped || thread_ends(thread);
  });
  process.halted_threads--;
}

void make_call_again(Thread& thread, TrapFrame& frame) {
  frame.rax = static_cast<uint64_t>(thread.call_number);
  frame.rip -= kSyscallInstructionSize;
  thread.restart = Restart::kNone;
}

// The next signal to handle.
struct Due {
  TakenSignal taken;  // signal 0: no signal is left to handle
  bool ends = false;  // the thread ends, regardless of pending signals
  Disposition what = Disposition::kIgnore;
  abi_sigaction action{};
  uint64_t mask = 0;  // the mask that is restored after the handler
};

// Takes the next signal that ends the process or has a handler. If a signal stops the process,
// performs the stop and goes on.
Due next_due(Thread& thread, SignalQueue& dropped) REQUIRES(process_lock) {
  Process& process = thread.process;
  for (;;) {
    thread.task->interrupted = false;
    if (process.stopped) wait_while_stopped(thread);
    Due due;
    due.ends = thread_ends(thread);
    if (due.ends) return due;
    due.taken = signal_take(thread, ~thread.blocked, dropped);
    const int signal = due.taken.signal;
    if (signal == 0) return due;
    due.what = disposition(process, signal, thread.forced);
    if (due.what == Disposition::kIgnore) continue;
    if (due.what == Disposition::kStop) {
      // Nobody could continue a process of an orphaned group, so the signal is discarded (POSIX,
      // 2.4.3).
      if (signal != ABI_SIGSTOP && job_is_orphaned(process)) continue;
      stop(process, signal);
      continue;
    }
    if (due.what == Disposition::kHandle) {
      due.action = process.actions[signal];
      due.mask = thread.has_saved_mask ? thread.saved_mask : thread.blocked;
      thread.has_saved_mask = false;
      uint64_t blocked = thread.blocked | due.action.mask;
      if (!(due.action.flags & ABI_SA_NODEFER)) blocked |= bit(signal);
      signal_set_mask(thread, blocked);
      if ((due.action.flags & ABI_SA_RESETHAND) && signal != ABI_SIGILL && signal != ABI_SIGTRAP) {
        process.actions[signal].handler = ABI_SIG_DFL;
        process.actions[signal].flags &= ~uint64_t{ABI_SA_SIGINFO};
      }
    }
    return due;
  }
}

Due take_signal(Thread& thread) {
  SignalQueue dropped;
  const Due due = [&] {
    const Guard guard(process_lock);
    return next_due(thread, dropped);
  }();
  signal_queue_free(dropped);
  return due;
}

}  // namespace

uint64_t signals_pending(const Thread& thread) {
  return thread.signals.mask() | thread.process.signals.mask();
}

bool signal_deliverable(const Thread& thread) {
  return (signals_pending(thread) & ~thread.blocked) != 0 || thread.process.stopped ||
         thread_ends(thread);
}

bool signal_kills(const Process& process) {
  return process.ending || process.signals.has(ABI_SIGKILL);
}

bool signal_ends(const Thread& thread) {
  if (thread_ends(thread)) return true;
  for (uint64_t ready = signals_pending(thread) & ~thread.blocked; ready != 0; ready &= ready - 1) {
    const int signal = __builtin_ctzll(ready);
    if (disposition(thread.process, signal, thread.forced) == Disposition::kEnd) return true;
  }
  return false;
}

bool signal_is_fatal(const Thread& thread, int signal) {
  return (thread.blocked & bit(signal)) || thread.process.actions[signal].handler <= ABI_SIG_IGN;
}

bool signal_is_ignored(const Process& process, int signal) {
  return disposition(process, signal) == Disposition::kIgnore;
}

void signal_post(Process& process, int signal, const SignalInfo& info) {
  // If the signal is pending already, a thread was told then, unless all threads block the signal.
  if (!arrives(process, signal) || process.signals.has_unqueued(signal)) return;
  if (!is_noticed(process, signal)) return;
  process.signals.add(signal, info);
  tell_one(process, signal);
}

void signal_post_to_member(Process& process, int signal, const SignalInfo& info) {
  for (Process& child : process.forked) post_to_forked(process, child, signal, info);
  signal_post(process, signal, info);
}

bool signal_post_queued(Process& process, QueuedSignal& queued) {
  if (!arrives(process, queued.signal) || !is_noticed(process, queued.signal)) return false;
  process.signals.add_queued(queued);
  tell_one(process, queued.signal);
  return true;
}

void signal_post_thread(Thread& thread, int signal, const SignalInfo& info) {
  if (!arrives(thread.process, signal)) return;
  if (!keeps(thread, signal) && signal_is_ignored(thread.process, signal)) return;
  thread.signals.add(signal, info);
  tell(thread, signal);
}

void signal_discard(Process& process, uint64_t mask, SignalQueue& dropped) {
  process.signals.discard(mask, dropped);
  for (Thread& thread : process.threads) thread.signals.discard(mask, dropped);
}

TakenSignal signal_take(Thread& thread, uint64_t mask, SignalQueue& dropped) {
  const uint64_t ready = signals_pending(thread) & mask;
  if (ready == 0) return {};
  const int signal = ready & bit(ABI_SIGKILL) ? ABI_SIGKILL : __builtin_ctzll(ready);
  PendingSignals& signals = thread.signals.has(signal) ? thread.signals : thread.process.signals;
  return signals.take(signal, dropped);
}

void signal_force(Thread& thread, int signal, const SignalInfo& info) {
  const Guard guard(process_lock);
  if (signal_is_fatal(thread, signal)) {
    thread.blocked &= ~bit(signal);
    thread.process.actions[signal] = {};
    thread.forced |= bit(signal);
  }
  thread.signals.replace(signal, info);
  thread.task->interrupted = true;
}

SignalInfo child_info(const Process& child, int status) {
  SignalInfo info{.pid = child.pid, .uid = child.who.real_uid};
  if (status == kStatusContinued) {
    info.code = ABI_CLD_CONTINUED;
    info.status = ABI_SIGCONT;
  } else if ((status & 0xff) == 0x7f) {
    info.code = ABI_CLD_STOPPED;
    info.status = status >> 8;
  } else if (status & 0x7f) {
    info.code = ABI_CLD_KILLED;
    info.status = status & 0x7f;
  } else {
    info.code = ABI_CLD_EXITED;
    info.status = status >> 8;
  }
  return info;
}

void signal_parent(Process& child, int status) {
  Process* const parent = child.parent;
  if (!parent) return;
  const SignalInfo info = child_info(child, status);
  const bool goes_on = info.code == ABI_CLD_STOPPED || info.code == ABI_CLD_CONTINUED;
  if (!goes_on || !(parent->actions[ABI_SIGCHLD].flags & ABI_SA_NOCLDSTOP))
    signal_post(*parent, ABI_SIGCHLD, info);
  parent->child_wait.wake_all();
}

void signals_reset_for_exec(Process& process) {
  for (abi_sigaction& action : process.actions) {
    if (action.handler != ABI_SIG_IGN) action.handler = ABI_SIG_DFL;
    action.mask = action.flags = action.restorer = 0;
  }
}

void signal_set_mask(Thread& thread, uint64_t mask) {
  const uint64_t before = std::exchange(thread.blocked, mask & ~kUnblockableSignals);
  thread.process.unkept &= ~thread.blocked;
  if (signal_deliverable(thread)) thread.task->interrupted = true;
  // This thread may have been interrupted for a signal that it blocks now: tell another thread.
  uint64_t left = thread.process.signals.mask() & thread.blocked & ~before;
  for (; left != 0; left &= left - 1) tell_one(thread.process, __builtin_ctzll(left), &thread);
}

void signals_thread_left(Thread& thread) {
  uint64_t left = thread.process.signals.mask() & ~thread.blocked;
  for (; left != 0; left &= left - 1) tell_one(thread.process, __builtin_ctzll(left));
  tell_stop(thread.process);
}

void signals_before_user(TrapFrame& frame) {
  const Task* const task = current_task();
  Thread* const thread = task->thread;
  if (!thread || (!task->interrupted && thread->restart == Restart::kNone)) return;
  for (;;) {
    const Due due = take_signal(*thread);
    if (due.ends) thread_exit();
    if (due.taken.signal == 0) break;
    if (due.what == Disposition::kEnd) process_exit(due.taken.signal);
    if (thread->restart == Restart::kAlways ||
        (thread->restart == Restart::kAfterHandler && (due.action.flags & ABI_SA_RESTART)))
      make_call_again(*thread, frame);
    thread->restart = Restart::kNone;
    thread->restarted = false;
    if (!enter_handler(*thread, frame, due.taken.info, due.action, due.mask)) {
      if (user_log_permits(thread->process))
        klog("%s: no stack for the handler of signal %d at 0x%lx", ThreadName(*thread).text,
             due.taken.signal, frame.rsp);
      process_exit(ABI_SIGSEGV);
    }
  }
  if (thread->restart != Restart::kNone) {
    make_call_again(*thread, frame);
    thread->restarted = true;
  }
}

bool process_is_ending() {
  Task* const task = current_task();
  if (!task->process) return false;
  if (task->process->state == ProcessState::kExiting) return true;
  if (!task->interrupted) return false;
  const Guard guard(process_lock);
  return signal_ends(*task->thread);
}
