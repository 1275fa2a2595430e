// Signals.
//
// A signal that somebody sends is a bit in `pending` and, unless it is blocked, an end to the
// interruptible sleep that the process may be in (task_interrupt). All else happens in the process
// itself, just before it goes back to user mode: signals_before_user takes pending signals one by
// one, lowest number first but SIGKILL before all, and ends the process, stops it, or builds a
// frame for the handler on the user stack. Signals that would be ignored anyway are dropped when
// they are sent, unless they are blocked.
//
// The frame of a handler: a return address (the restorer, which makes the sigreturn call), the
// SignalFrame with the registers and the mask, and the floating point state, from lower to higher
// addresses, below the red zone. What sigreturn reads back is checked as if the program had made it
// up, which it may have.
//
// A system call that a signal interrupted ends with EINTR, and says by Process.restart whether it
// is to be made again: when no handler ran, or a handler with SA_RESTART. To make it again, the
// program counter goes back to the `syscall` instruction.
#include "arch/x86_64/interrupts.h"
#include "core/log.h"
#include "core/user_memory.h"
#include "lib/string.h"
#include "proc/process_impl.h"

namespace {

constexpr uint64_t bit(int signal) {
  return uint64_t{1} << signal;
}
constexpr uint64_t kStops =
    bit(ABI_SIGSTOP) | bit(ABI_SIGTSTP) | bit(ABI_SIGTTIN) | bit(ABI_SIGTTOU);
constexpr uint64_t kIgnored =
    bit(ABI_SIGCHLD) | bit(ABI_SIGCONT) | bit(ABI_SIGURG) | bit(ABI_SIGWINCH);
constexpr uint64_t kUnblockable = bit(ABI_SIGKILL) | bit(ABI_SIGSTOP);
constexpr uint64_t kRedZone = 128;
constexpr uint64_t kSyscallInstructionSize = 2;

// Followed by the floating point state, fpu_state_size() bytes.
struct SignalFrame {
  TrapFrame registers;
  uint64_t mask;
};

enum class Disposition : uint8_t { kIgnore, kStop, kEnd, kHandle };

Disposition disposition(const Process& process, int signal) REQUIRES(process_lock) {
  const uint64_t handler = process.actions[signal].handler;
  if (handler == ABI_SIG_IGN) return Disposition::kIgnore;
  if (handler != ABI_SIG_DFL) return Disposition::kHandle;
  if (bit(signal) & kIgnored) return Disposition::kIgnore;
  if (process.pid == kInitPid && !(process.forced & bit(signal))) return Disposition::kIgnore;
  return bit(signal) & kStops ? Disposition::kStop : Disposition::kEnd;
}

// A signal to act on, or 0.
int next_signal(const Process& process) REQUIRES(process_lock) {
  const uint64_t ready = process.pending & ~process.blocked;
  if (ready & bit(ABI_SIGKILL)) return ABI_SIGKILL;
  return ready ? __builtin_ctzll(ready) : 0;
}

void stop(Process& process, int signal) REQUIRES(process_lock) {
  process.stopped = true;
  process.stop_reported = false;
  process.stop_signal = signal;
  signal_parent(process, false);
  process.stop_wait.wait_uninterruptible(process_lock, [&] { return !process.stopped; });
}

// Puts a frame on the user stack and lets the program continue in the handler. EFAULT.
Result<void> enter_handler(Process& process, TrapFrame& frame, int signal,
                           const abi_sigaction& action, uint64_t mask) {
  const size_t fpu_size = fpu_state_size();
  const uint64_t at = (frame.rsp - kRedZone - sizeof(SignalFrame) - fpu_size) & ~uint64_t{15};
  {
    const InterruptsOff off;
    fpu_save(*process.user_registers.fpu);
  }
  TRY(copy_to_user(at + sizeof(SignalFrame), process.user_registers.fpu, fpu_size));
  TRY(copy_to_user(at + offsetof(SignalFrame, registers), &frame, sizeof(frame)));
  TRY(copy_to_user(at + offsetof(SignalFrame, mask), &mask, sizeof(mask)));
  TRY(copy_to_user(at - sizeof(uint64_t), &action.restorer, sizeof(action.restorer)));
  const TrapFrame interrupted = frame;
  frame = user_frame(action.handler, at - sizeof(uint64_t));
  frame.rbp = interrupted.rbp;
  frame.rdi = static_cast<uint64_t>(signal);
  return {};
}

void make_call_again(Process& process, TrapFrame& frame) {
  frame.rax = static_cast<uint64_t>(process.call_number);
  frame.rip -= kSyscallInstructionSize;
  process.restart = Restart::kNone;
}

// A signal whose turn it is.
struct Due {
  int signal = 0;  // 0: nothing any more
  Disposition what = Disposition::kIgnore;
  abi_sigaction action{};
  uint64_t mask = 0;  // before the handler
};

// Takes the next signal off; stops are done here.
Due take_signal(Process& process) {
  const Guard guard(process_lock);
  for (;;) {
    current_task()->interrupted = false;
    Due due;
    due.signal = next_signal(process);
    if (due.signal == 0) return due;
    process.pending &= ~bit(due.signal);
    due.what = disposition(process, due.signal);
    if (due.what == Disposition::kIgnore) continue;
    if (due.what == Disposition::kStop) {
      // Nobody would make it go on (POSIX, 2.4.3: the signal is discarded).
      if (due.signal != ABI_SIGSTOP && job_is_orphaned(process)) continue;
      stop(process, due.signal);
      continue;
    }
    if (due.what == Disposition::kHandle) {
      due.action = process.actions[due.signal];
      due.mask = process.has_saved_mask ? process.saved_mask : process.blocked;
      process.has_saved_mask = false;
      process.blocked |= due.action.mask & ~kUnblockable;
      if (!(due.action.flags & ABI_SA_NODEFER)) process.blocked |= bit(due.signal);
    }
    return due;
  }
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

bool signal_is_fatal(Process& process, int signal) {
  return (process.blocked & bit(signal)) || process.actions[signal].handler <= ABI_SIG_IGN;
}

void signal_post(Process& process, int signal) {
  if (process.state != ProcessState::kAlive) return;
  if (signal == ABI_SIGKILL || signal == ABI_SIGCONT) {
    process.pending &= ~kStops;
    if (process.stopped) {
      process.stopped = false;
      process.stop_wait.wake_all();
    }
  }
  if (bit(signal) & kStops) process.pending &= ~bit(ABI_SIGCONT);
  const bool blocked = process.blocked & bit(signal);
  if (!blocked && disposition(process, signal) == Disposition::kIgnore) return;
  process.pending |= bit(signal);
  if (!blocked) task_interrupt(process.task);
}

void signal_post_to_member(Process& process, int signal) {
  process.group_signals |= bit(signal);
  signal_post(process, signal);
}

void signal_force(Process& process, int signal) {
  const Guard guard(process_lock);
  if (signal_is_fatal(process, signal)) {
    process.blocked &= ~bit(signal);
    process.actions[signal] = {};
    process.forced |= bit(signal);
  }
  process.pending |= bit(signal);
  current_task()->interrupted = true;
}

void signal_parent(Process& child, bool ended) {
  Process* const parent = child.parent;
  if (!parent) return;
  if (ended || !(parent->actions[ABI_SIGCHLD].flags & ABI_SA_NOCLDSTOP))
    signal_post(*parent, ABI_SIGCHLD);
  parent->child_wait.wake_all();
}

void signals_reset_for_exec(Process& process) {
  for (abi_sigaction& action : process.actions) {
    if (action.handler != ABI_SIG_IGN) action.handler = ABI_SIG_DFL;
    action.mask = action.flags = action.restorer = 0;
  }
}

void signal_set_mask(Process& process, uint64_t mask) {
  process.blocked = mask & ~kUnblockable;
  if (signal_deliverable(process)) current_task()->interrupted = true;
}

void signals_before_user(TrapFrame& frame) {
  Task* const task = current_task();
  Process* const process = task->process;
  if (!process || (!task->interrupted && process->restart == Restart::kNone)) return;
  for (;;) {
    const Due due = take_signal(*process);
    if (due.signal == 0) break;
    if (due.what == Disposition::kEnd) process_exit(due.signal);
    if (process->restart == Restart::kAlways ||
        (process->restart == Restart::kAfterHandler && (due.action.flags & ABI_SA_RESTART)))
      make_call_again(*process, frame);
    process->restart = Restart::kNone;
    process->restarted = false;
    if (!enter_handler(*process, frame, due.signal, due.action, due.mask)) {
      klog("pid %u %s: no stack for the handler of signal %d at 0x%lx", process->pid, process->name,
           due.signal, frame.rsp);
      process_exit(ABI_SIGSEGV);
    }
  }
  if (process->restart != Restart::kNone) {
    make_call_again(*process, frame);
    process->restarted = true;
  }
}

uint64_t signal_frame_size() {
  constexpr uint64_t kReturnAddress = 8, kAlignment = 15;
  return kRedZone + sizeof(SignalFrame) + fpu_state_size() + kReturnAddress + kAlignment;
}

Result<void> signal_return(Process& process, TrapFrame& frame) {
  SignalFrame saved;
  // Not read into the process's own, from which the task may be loaded in the midst of it.
  alignas(kFpuAlign) char fpu_bytes[kMaxFpuSize];
  auto& fpu = *reinterpret_cast<FpuState*>(fpu_bytes);
  TRY(copy_from_user(&saved, frame.rsp, sizeof(saved)));
  TRY(copy_from_user(fpu_bytes, frame.rsp + sizeof(saved), fpu_state_size()));
  fpu_make_valid(fpu);
  {
    const InterruptsOff off;
    memcpy(process.user_registers.fpu, fpu_bytes, fpu_state_size());
    fpu_restore(*process.user_registers.fpu);
  }
  frame = saved.registers;  // return_to_user forces what user mode may not choose
  const Guard guard(process_lock);
  signal_set_mask(process, saved.mask);
  return {};
}

namespace {

// What kill gives of the processes that it found.
struct Sending {
  const int signal;
  const Credentials& who;
  void (*const post)(Process& process, int signal);
  bool found = false, allowed = false;

  void to(Process& process) REQUIRES(process_lock) {
    found = true;
    if (who.uid != 0 && who.uid != process.who.uid) return;
    allowed = true;
    if (signal != 0) post(process, signal);
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

bool process_is_ending() {
  Task* const task = current_task();
  if (!task->process) return false;
  const Process& process = *task->process;
  if (process.state == ProcessState::kExiting) return true;
  if (!task->interrupted) return false;
  const Guard guard(process_lock);
  return signal_ends(process);
}
