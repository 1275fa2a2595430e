// System calls on signals.
#include "arch/x86_64/paging.h"
#include "proc/system_call_impl.h"

namespace {

constexpr uint64_t kKnownFlags = ABI_SA_NOCLDSTOP | ABI_SA_SIGINFO | ABI_SA_ONSTACK |
                                 ABI_SA_RESTART | ABI_SA_NODEFER | ABI_SA_RESETHAND |
                                 ABI_SA_NOCLDWAIT;
constexpr int kHowSet = 0, kHowBlock = 1, kHowUnblock = 2;

bool valid_signal(int signal) {
  return signal > 0 && signal < ABI_SIGNAL_COUNT;
}

// Implements kill(-1): sends the signal to every process that the caller may signal, except process
// 1 and the caller.
Result<void> signal_everybody(Process& sender, int signal) {
  bool sent = false;
  const Guard guard(process_lock);
  for (Process& process : all_processes) {
    if (process.pid == kInitPid || &process == &sender) continue;
    if (!signal_permitted(process, sender.who)) continue;
    if (signal != 0)
      signal_post(process, signal,
                  {.code = ABI_SI_USER, .pid = sender.pid, .uid = sender.who.real_uid});
    sent = true;
  }
  if (!sent) return Errno::ESRCH;
  return {};
}

}  // namespace

Result<int64_t> sys_kill(const SystemCall& call) {
  const int pid = call.integer(0), signal = call.integer(1);
  if (signal != 0 && !valid_signal(signal)) return Errno::EINVAL;
  if (pid == -1) {
    TRY(signal_everybody(call.process, signal));
  } else {
    TRY(process_signal(pid == 0 ? -static_cast<int>(call.process.group) : pid, signal,
                       call.process.credentials()));
  }
  return 0;
}

Result<int64_t> sys_sigaction(const SystemCall& call) {
  const int signal = call.integer(0);
  if (!valid_signal(signal)) return Errno::EINVAL;
  abi_sigaction action{}, old;
  if (call.arguments[1]) {
    if (signal == ABI_SIGKILL || signal == ABI_SIGSTOP) return Errno::EINVAL;
    TRY(get_user(call.arguments[1], action));
    action.flags &= kKnownFlags;
  }
  SignalQueue dropped;
  {
    const Guard guard(process_lock);
    old = call.process.actions[signal];
    if (call.arguments[1]) {
      call.process.actions[signal] = action;
      if (signal_is_ignored(call.process, signal))
        signal_discard(call.process, uint64_t{1} << signal, dropped);
    }
  }
  signal_queue_free(dropped);
  if (call.arguments[2]) TRY(put_user(call.arguments[2], old));
  return 0;
}

Result<int64_t> sys_sigprocmask(const SystemCall& call) {
  uint64_t given = 0, old;
  if (call.arguments[1]) TRY(get_user(call.arguments[1], given));
  {
    const Guard guard(process_lock);
    old = call.thread.blocked;
    if (call.arguments[1]) {
      switch (call.integer(0)) {
        case kHowSet:
          signal_set_mask(call.thread, given);
          break;
        case kHowBlock:
          signal_set_mask(call.thread, old | given);
          break;
        case kHowUnblock:
          signal_set_mask(call.thread, old & ~given);
          break;
        default:
          return Errno::EINVAL;
      }
    }
  }
  if (call.arguments[2]) TRY(put_user(call.arguments[2], old));
  return 0;
}

TemporaryMask::~TemporaryMask() {
  // Only this thread changes has_saved_mask, so this check needs no lock.
  if (is_kept_ || !thread_.has_saved_mask) return;
  const Guard guard(process_lock);
  thread_.has_saved_mask = false;
  signal_set_mask(thread_, thread_.saved_mask);
}

Result<void> TemporaryMask::set(uint64_t address) {
  uint64_t mask;
  TRY(get_user(address, mask));
  const Guard guard(process_lock);
  if (!thread_.has_saved_mask) {
    thread_.saved_mask = thread_.blocked;
    thread_.has_saved_mask = true;
  }
  signal_set_mask(thread_, mask);
  return {};
}

Result<int64_t> sys_sigsuspend(const SystemCall& call) {
  call.thread.restart = Restart::kUnlessHandled;
  TemporaryMask mask(call.thread);
  TRY(mask.set(call.arguments[0]));
  mask.keep();
  const Guard guard(process_lock);
  WaitQueue nobody_wakes;
  TRY(nobody_wakes.wait(process_lock, [] { return false; }));
  return 0;
}

Result<int64_t> sys_sigpending(const SystemCall& call) {
  uint64_t pending;
  {
    const Guard guard(process_lock);
    pending = signals_pending(call.thread) & call.thread.blocked;
  }
  TRY(put_user(call.arguments[0], pending));
  return 0;
}

Result<int64_t> sys_sigtimedwait(const SystemCall& call) {
  call.thread.restart = Restart::kUnlessHandled;
  Thread& thread = call.thread;
  uint64_t wanted;
  TRY(get_user(call.arguments[0], wanted));
  wanted &= ~kUnblockableSignals;
  if (!thread.restarted) {
    thread.sleep_deadline = kForever;
    if (call.arguments[2])
      thread.sleep_deadline = deadline_after(TRY(get_duration(call.arguments[2])));
  }
  SignalQueue dropped;
  TakenSignal taken;
  const Result<void> waited = [&]() -> Result<void> {
    const Guard guard(process_lock);
    thread.awaited = wanted;
    thread.process.unkept &= ~wanted;
    const Result<void> result = thread.signal_wait.wait(
        process_lock,
        [&]() REQUIRES(process_lock) { return (signals_pending(thread) & wanted) != 0; },
        thread.sleep_deadline);
    thread.awaited = 0;
    if (result) taken = signal_take(thread, wanted, dropped);
    return result;
  }();
  signal_queue_free(dropped);
  if (!waited) return waited.error() == Errno::ETIMEDOUT ? Errno::EAGAIN : waited.error();
  if (call.arguments[1]) TRY(put_user(call.arguments[1], taken.info));
  return taken.signal;
}

Result<int64_t> sys_sigqueue(const SystemCall& call) {
  const int signal = call.integer(1);
  if (signal != 0 && !valid_signal(signal)) return Errno::EINVAL;
  TRY(signal_queue(call.process, call.integer(0), signal, call.arguments[2]));
  return 0;
}

Result<int64_t> sys_sigaltstack(const SystemCall& call) {
  Thread& thread = call.thread;
  const bool is_on = on_signal_stack(thread, call.frame.rsp);
  abi_stack old = thread.signal_stack;
  if (is_on) old.flags |= ABI_SS_ONSTACK;
  if (call.arguments[0]) {
    abi_stack stack;
    TRY(get_user(call.arguments[0], stack));
    if (is_on) return Errno::EPERM;
    if (stack.flags & ~ABI_SS_DISABLE) return Errno::EINVAL;
    if (stack.flags & ABI_SS_DISABLE) {
      stack = {.base = 0, .flags = ABI_SS_DISABLE, .unused = 0, .size = 0};
    } else if (stack.size < ABI_MINSIGSTKSZ) {
      return Errno::ENOMEM;
    } else if (stack.base >= kUserEnd || stack.size > kUserEnd - stack.base) {
      return Errno::EFAULT;
    }
    thread.signal_stack = stack;
  }
  if (call.arguments[1]) TRY(put_user(call.arguments[1], old));
  return 0;
}

Result<int64_t> sys_sigreturn(const SystemCall& call) {
  if (!signal_return(call.thread, call.frame)) signal_force(call.thread, ABI_SIGSEGV);
  return 0;
}
