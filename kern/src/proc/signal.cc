// Signals.
//
// A signal that somebody sends is a bit in `pending` and, unless it is blocked, an end to the
// interruptible sleep that the process may be in (task_interrupt). What is known of it stands in
// `info`, once for each number: a signal that comes while the same one is pending changes nothing.
// Those that carry a value of their own are nodes of `queued` instead: signals in real time that
// sigqueue sends (a node is allocated before the lock is taken; a process has at most kMaxQueued of
// them), and those of POSIX timers, whose node is part of the timer. All else happens in the
// process itself, just before it goes back to user mode: signals_before_user takes pending signals
// one by one, lowest number first but SIGKILL before all, and ends the process, stops it, or builds
// a frame for the handler on the user stack. Signals that would be ignored anyway are dropped when
// they are sent, unless they are blocked.
//
// A system call that a signal interrupted ends with EINTR, and says by Process.restart whether it
// is to be made again: when no handler ran, or a handler with SA_RESTART. To make it again, the
// program counter goes back to the `syscall` instruction.
#include "arch/x86_64/interrupts.h"
#include "core/log.h"
#include "proc/process_impl.h"

namespace {

constexpr uint64_t bit(int signal) {
  return uint64_t{1} << signal;
}
constexpr uint64_t kStops =
    bit(ABI_SIGSTOP) | bit(ABI_SIGTSTP) | bit(ABI_SIGTTIN) | bit(ABI_SIGTTOU);
constexpr uint64_t kIgnored =
    bit(ABI_SIGCHLD) | bit(ABI_SIGCONT) | bit(ABI_SIGURG) | bit(ABI_SIGWINCH);
constexpr uint64_t kSyscallInstructionSize = 2;
constexpr unsigned kMaxQueued = 32;  // SIGQUEUE_MAX
constexpr int kStatusContinued = 0xffff;

constinit ObjectCache<QueuedSignal> queued_cache;

enum class Disposition : uint8_t { kIgnore, kStop, kEnd, kHandle };

Disposition disposition(const Process& process, int signal) REQUIRES(process_lock) {
  const uint64_t handler = process.actions[signal].handler;
  if (handler == ABI_SIG_IGN) return Disposition::kIgnore;
  if (handler != ABI_SIG_DFL) return Disposition::kHandle;
  if (bit(signal) & kIgnored) return Disposition::kIgnore;
  if (process.pid == kInitPid && !(process.forced & bit(signal))) return Disposition::kIgnore;
  return bit(signal) & kStops ? Disposition::kStop : Disposition::kEnd;
}

int stopped_status(int signal) {
  return signal << 8 | 0x7f;
}

bool is_queued(Process& process, int signal) REQUIRES(process_lock) {
  for (const QueuedSignal& queued : process.queued) {
    if (queued.signal == signal) return true;
  }
  return false;
}

// After one of them has been taken off.
void update_pending(Process& process, int signal) REQUIRES(process_lock) {
  if (!(process.unqueued & bit(signal)) && !is_queued(process, signal))
    process.pending &= ~bit(signal);
}

// What a signal does when it is sent. False if nobody will notice it.
bool arrives(Process& process, int signal) REQUIRES(process_lock) {
  if (process.state != ProcessState::kAlive) return false;
  SignalQueue dropped;  // stays empty: sigqueue queues none of these
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
  return ((process.blocked | process.awaited) & bit(signal)) || !signal_is_ignored(process, signal);
}

void make_pending(Process& process, int signal) REQUIRES(process_lock) {
  process.pending |= bit(signal);
  if (process.awaited & bit(signal)) process.signal_wait.wake_all();
  if (!(process.blocked & bit(signal))) task_interrupt(process.task);
}

void stop(Process& process, int signal) REQUIRES(process_lock) {
  process.stopped = true;
  process.stop_reported = false;
  process.continued = false;
  process.stop_signal = signal;
  signal_parent(process, stopped_status(signal));
  process.stop_wait.wait_uninterruptible(process_lock, [&] { return !process.stopped; });
}

void make_call_again(Process& process, TrapFrame& frame) {
  frame.rax = static_cast<uint64_t>(process.call_number);
  frame.rip -= kSyscallInstructionSize;
  process.restart = Restart::kNone;
}

// A signal whose turn it is.
struct Due {
  TakenSignal taken;  // none: nothing any more
  Disposition what = Disposition::kIgnore;
  abi_sigaction action{};
  uint64_t mask = 0;  // before the handler
};

// Takes the next signal off that ends the process or has a handler; stops are done here.
Due next_due(Process& process, SignalQueue& dropped) REQUIRES(process_lock) {
  for (;;) {
    current_task()->interrupted = false;
    Due due;
    due.taken = signal_take(process, ~process.blocked, dropped);
    const int signal = due.taken.signal;
    if (signal == 0) return due;
    due.what = disposition(process, signal);
    if (due.what == Disposition::kIgnore) continue;
    if (due.what == Disposition::kStop) {
      // Nobody would make it go on (POSIX, 2.4.3: the signal is discarded).
      if (signal != ABI_SIGSTOP && job_is_orphaned(process)) continue;
      stop(process, signal);
      continue;
    }
    if (due.what == Disposition::kHandle) {
      due.action = process.actions[signal];
      due.mask = process.has_saved_mask ? process.saved_mask : process.blocked;
      process.has_saved_mask = false;
      process.blocked |= due.action.mask & ~kUnblockableSignals;
      if (!(due.action.flags & ABI_SA_NODEFER)) process.blocked |= bit(signal);
      if ((due.action.flags & ABI_SA_RESETHAND) && signal != ABI_SIGILL && signal != ABI_SIGTRAP) {
        process.actions[signal].handler = ABI_SIG_DFL;
        process.actions[signal].flags &= ~uint64_t{ABI_SA_SIGINFO};
      }
    }
    return due;
  }
}

Due take_signal(Process& process) {
  SignalQueue dropped;
  const Due due = [&] {
    const Guard guard(process_lock);
    return next_due(process, dropped);
  }();
  signal_queue_free(dropped);
  return due;
}

}  // namespace

bool signal_deliverable(const Process& process) {
  return (process.pending & ~process.blocked) != 0;
}

bool signal_kills(const Process& process) {
  return process.pending & bit(ABI_SIGKILL);
}

bool signal_ends(const Process& process) {
  for (uint64_t ready = process.pending & ~process.blocked; ready != 0; ready &= ready - 1) {
    if (disposition(process, __builtin_ctzll(ready)) == Disposition::kEnd) return true;
  }
  return false;
}

bool signal_permitted(const Process& process, const Credentials& who) {
  const auto is_his = [&process](uint32_t uid) NO_THREAD_SAFETY_ANALYSIS {
    return uid == process.who.real_uid || uid == process.who.saved_uid;
  };
  return who.uid == 0 || is_his(who.uid) || is_his(who.real_uid);
}

bool signal_is_fatal(Process& process, int signal) {
  return (process.blocked & bit(signal)) || process.actions[signal].handler <= ABI_SIG_IGN;
}

bool signal_is_ignored(const Process& process, int signal) {
  return disposition(process, signal) == Disposition::kIgnore;
}

void signal_post(Process& process, int signal, const SignalInfo& info) {
  if (!arrives(process, signal)) return;
  if (!(process.unqueued & bit(signal))) process.info[signal] = info;
  process.unqueued |= bit(signal);
  make_pending(process, signal);
}

void signal_post_to_member(Process& process, int signal, const SignalInfo& info) {
  process.group_signals |= bit(signal);
  signal_post(process, signal, info);
}

bool signal_post_queued(Process& process, QueuedSignal& queued) {
  if (!arrives(process, queued.signal)) return false;
  process.queued.push_back(queued);
  make_pending(process, queued.signal);
  return true;
}

void signal_withdraw(Process& process, QueuedSignal& queued) {
  if (!queued.link.linked()) return;
  queued.link.unlink();
  update_pending(process, queued.signal);
}

void signal_discard(Process& process, uint64_t mask, SignalQueue& dropped) {
  process.unqueued &= ~mask;
  process.pending &= ~mask;
  for (QueuedSignal& queued : process.queued) {
    if (!(bit(queued.signal) & mask)) continue;
    queued.link.unlink();
    if (queued.timer) continue;
    process.queued_count--;
    dropped.push_back(queued);
  }
}

TakenSignal signal_take(Process& process, uint64_t mask, SignalQueue& dropped) {
  const uint64_t ready = process.pending & mask;
  if (ready == 0) return {};
  const int signal = ready & bit(ABI_SIGKILL) ? ABI_SIGKILL : __builtin_ctzll(ready);
  SignalInfo info;
  TakenSignal taken{.signal = signal, .info = {}};
  if (process.unqueued & bit(signal)) {
    process.unqueued &= ~bit(signal);
    info = process.info[signal];
  } else {
    for (QueuedSignal& queued : process.queued) {
      if (queued.signal != signal) continue;
      queued.link.unlink();
      info = queued.info;
      if (PosixTimer* const timer = queued.timer) {
        timer->last_overruns = std::exchange(timer->overruns, 0);
        taken.info.timer = timer->id;
        taken.info.overrun = posix_timer_overrun(*timer);
      } else {
        process.queued_count--;
        dropped.push_back(queued);
      }
      break;
    }
  }
  update_pending(process, signal);
  taken.info.signo = signal;
  taken.info.code = info.code;
  taken.info.status = info.status;
  taken.info.pid = static_cast<int32_t>(info.pid);
  taken.info.uid = info.uid;
  (info.code == ABI_SI_QUEUE || info.code == ABI_SI_TIMER ? taken.info.value : taken.info.address) =
      info.word;
  return taken;
}

void signal_queue_free(SignalQueue& queue) {
  while (QueuedSignal* const queued = queue.pop_front()) queued_cache.destroy(queued);
}

void signal_force(Process& process, int signal, const SignalInfo& info) {
  const Guard guard(process_lock);
  if (signal_is_fatal(process, signal)) {
    process.blocked &= ~bit(signal);
    process.actions[signal] = {};
    process.forced |= bit(signal);
  }
  process.info[signal] = info;
  process.unqueued |= bit(signal);
  process.pending |= bit(signal);
  current_task()->interrupted = true;
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

void signal_set_mask(Process& process, uint64_t mask) {
  process.blocked = mask & ~kUnblockableSignals;
  if (signal_deliverable(process)) current_task()->interrupted = true;
}

void signals_before_user(TrapFrame& frame) {
  Task* const task = current_task();
  Process* const process = task->process;
  if (!process || (!task->interrupted && process->restart == Restart::kNone)) return;
  for (;;) {
    const Due due = take_signal(*process);
    if (due.taken.signal == 0) break;
    if (due.what == Disposition::kEnd) process_exit(due.taken.signal);
    if (process->restart == Restart::kAlways ||
        (process->restart == Restart::kAfterHandler && (due.action.flags & ABI_SA_RESTART)))
      make_call_again(*process, frame);
    process->restart = Restart::kNone;
    process->restarted = false;
    if (!enter_handler(*process, frame, due.taken.info, due.action, due.mask)) {
      klog("pid %u %s: no stack for the handler of signal %d at 0x%lx", process->pid, process->name,
           due.taken.signal, frame.rsp);
      process_exit(ABI_SIGSEGV);
    }
  }
  if (process->restart != Restart::kNone) {
    make_call_again(*process, frame);
    process->restarted = true;
  }
}

namespace {

SignalInfo sent_by(const Credentials& who) {
  const Process* const sender = current_process();
  return {.code = ABI_SI_USER, .pid = sender ? sender->pid : 0, .uid = who.real_uid};
}

// What kill gives of the processes that it found.
struct Sending {
  const int signal;
  const Credentials& who;
  void (*const post)(Process& process, int signal, const SignalInfo& info);
  const SignalInfo info = sent_by(who);
  bool found = false, allowed = false;

  // Whoever is in a session may make its processes go on.
  bool goes_on(const Process& process) const REQUIRES(process_lock) {
    const Process* const sender = current_process();
    return signal == ABI_SIGCONT && sender && sender->session == process.session;
  }
  void to(Process& process) REQUIRES(process_lock) {
    found = true;
    if (!signal_permitted(process, who) && !goes_on(process)) return;
    allowed = true;
    if (signal != 0) post(process, signal, info);
  }
  Result<void> result() const {
    if (!found) return Errno::ESRCH;
    if (!allowed) return Errno::EPERM;
    return {};
  }
};

}  // namespace

Result<void> process_signal(int32_t pid, int signal, const Credentials& who) {
  if (signal < 0 || signal >= ABI_SIGNAL_COUNT) return Errno::EINVAL;
  Sending sending{signal, who, pid > 0 ? signal_post : signal_post_to_member};
  const Guard guard(process_lock);
  if (pid > 0) {
    if (Process* const process = process_find(static_cast<uint32_t>(pid))) sending.to(*process);
  } else if (pid < 0) {
    for (Process& process : all_processes) {
      if (process.group == static_cast<uint32_t>(-static_cast<int64_t>(pid))) sending.to(process);
    }
  }
  return sending.result();
}

Result<void> process_signal(ProcessId id, int signal, const Credentials& who) {
  if (signal < 0 || signal >= ABI_SIGNAL_COUNT) return Errno::EINVAL;
  Sending sending{signal, who, signal_post};
  const Guard guard(process_lock);
  if (Process* const process = process_find(id)) sending.to(*process);
  return sending.result();
}

Result<void> signal_queue(Process& sender, int32_t pid, int signal, uint64_t value) {
  SignalInfo info = sent_by(sender.who);
  info.code = ABI_SI_QUEUE;
  info.word = value;
  SignalQueue unused;  // the node, until it is in the process's queue
  if (signal >= ABI_SIGRTMIN) {
    QueuedSignal* const node = TRY(queued_cache.make(KM_SLEEP));
    node->signal = signal;
    node->info = info;
    unused.push_back(*node);
  }
  const Result<void> result = [&]() -> Result<void> {
    const Guard guard(process_lock);
    Process* const process = pid > 0 ? process_find(static_cast<uint32_t>(pid)) : nullptr;
    if (!process) return Errno::ESRCH;
    Sending sending{signal == 0 || !unused.empty() ? 0 : signal, sender.who, signal_post, info};
    sending.to(*process);
    TRY(sending.result());
    if (unused.empty()) return {};
    if (process->queued_count == kMaxQueued) return Errno::EAGAIN;
    QueuedSignal& node = *unused.pop_front();
    if (signal_post_queued(*process, node)) {
      process->queued_count++;
    } else {
      unused.push_back(node);
    }
    return {};
  }();
  signal_queue_free(unused);
  return result;
}

void signals_init() {
  queued_cache.init("signal");
}

bool process_is_ending() {
  Task* const task = current_task();
  if (!task->process) return false;
  const Process& process = *task->process;
  if (process.state == ProcessState::kExiting) return true;
  if (!task->interrupted) return false;
  const Guard guard(process_lock);
  return signal_ends(process);
}
