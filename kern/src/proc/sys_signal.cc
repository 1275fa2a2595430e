// System calls on signals.
#include "proc/system_call.h"

namespace {

constexpr int kHowSet = 0, kHowBlock = 1, kHowUnblock = 2;

bool valid_signal(int signal) {
  return signal > 0 && signal < ABI_SIGNAL_COUNT;
}

// kill(-1): every process that the caller may signal, but process 1 and the caller.
Result<void> signal_everybody(Process& sender, int signal) {
  bool sent = false;
  const Guard guard(process_lock);
  for (Process& process : all_processes) {
    if (process.pid == kInitPid || &process == &sender) continue;
    if (!signal_permitted(process, sender.who)) continue;
    if (signal != 0) signal_post(process, signal);
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
                       call.process.who));
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
  }
  {
    const Guard guard(process_lock);
    old = call.process.actions[signal];
    if (call.arguments[1]) call.process.actions[signal] = action;
  }
  if (call.arguments[2]) TRY(put_user(call.arguments[2], old));
  return 0;
}

Result<int64_t> sys_sigprocmask(const SystemCall& call) {
  uint64_t given = 0, old;
  if (call.arguments[1]) TRY(get_user(call.arguments[1], given));
  {
    const Guard guard(process_lock);
    old = call.process.blocked;
    if (call.arguments[1]) {
      switch (call.integer(0)) {
        case kHowSet:
          signal_set_mask(call.process, given);
          break;
        case kHowBlock:
          signal_set_mask(call.process, old | given);
          break;
        case kHowUnblock:
          signal_set_mask(call.process, old & ~given);
          break;
        default:
          return Errno::EINVAL;
      }
    }
  }
  if (call.arguments[2]) TRY(put_user(call.arguments[2], old));
  return 0;
}

Result<int64_t> sys_sigsuspend(const SystemCall& call) {
  Process& process = call.process;
  uint64_t mask;
  TRY(get_user(call.arguments[0], mask));
  const Guard guard(process_lock);
  if (!process.has_saved_mask) {
    process.saved_mask = process.blocked;
    process.has_saved_mask = true;
  }
  signal_set_mask(process, mask);
  WaitQueue nobody_wakes;
  TRY(nobody_wakes.wait(process_lock, [] { return false; }));
  return 0;
}

Result<int64_t> sys_sigreturn(const SystemCall& call) {
  if (!signal_return(call.process, call.frame)) signal_force(call.process, ABI_SIGSEGV);
  return 0;
}
