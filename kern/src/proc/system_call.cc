// From the trap to the function of a system call, and back.
#include "proc/system_call.h"

#include "arch/x86_64/time.h"

namespace {

using Handler = Result<int64_t> (*)(const SystemCall& call);

constexpr Handler kHandlers[] = {
#define HANDLER(name, number) [number] = sys_##name,
    ABI_SYSCALLS(HANDLER)
#undef HANDLER
};
static_assert(sizeof(kHandlers) / sizeof(kHandlers[0]) == ABI_SYS_COUNT);

// How the call goes on after a signal.
Restart restart_of(int64_t number) {
  switch (number) {
    case ABI_SYS_fork:
      return Restart::kAlways;
    case ABI_SYS_sigsuspend:
    case ABI_SYS_nanosleep:
    case ABI_SYS_poll:
    case ABI_SYS_sigtimedwait:
      return Restart::kUnlessHandled;
    default:
      return Restart::kAfterHandler;
  }
}

}  // namespace

void system_call(TrapFrame& frame) {
  Task& task = *current_task();
  Process& process = *task.process;
  const uint64_t number = frame.rax;
  if (number != ABI_SYS_errstr) task.error_string[0] = '\0';
  if (number >= ABI_SYS_COUNT) {
    frame.rax = static_cast<uint64_t>(-static_cast<int64_t>(Errno::ENOSYS));
    return;
  }
  process.call_number = static_cast<int64_t>(number);
  process.restart = Restart::kNone;
  const SystemCall call{
      process, frame, {frame.rdi, frame.rsi, frame.rdx, frame.r10, frame.r8, frame.r9}};
  Result<int64_t> result = kHandlers[number](call);
  process.restarted = false;
  if (!result) {
    if (result.error() == Errno::EINTR) process.restart = restart_of(process.call_number);
    frame.rax = static_cast<uint64_t>(-static_cast<int64_t>(result.error()));
    return;
  }
  // sigreturn has put back all registers.
  if (number != ABI_SYS_sigreturn) frame.rax = static_cast<uint64_t>(*result);
}

Result<void> UserPath::copy(uint64_t address) {
  size_ = TRY(copy_string_from_user(text_, address, sizeof(text_)));
  if (size_ == 0) return Errno::ENOENT;
  return {};
}

abi_rusage rusage_of(const Usage& usage) {
  const auto time = [](uint64_t ticks) -> abi_timespec {
    return {static_cast<int64_t>(ticks / kTickHz),
            static_cast<int64_t>(ticks % kTickHz * (1'000'000'000 / kTickHz))};
  };
  return {.user = time(usage.user_ticks),
          .system = time(usage.system_ticks),
          .max_resident = usage.max_resident,
          .minor_faults = usage.minor_faults,
          .major_faults = usage.major_faults,
          .voluntary_switches = usage.voluntary_switches,
          .involuntary_switches = usage.involuntary_switches};
}
