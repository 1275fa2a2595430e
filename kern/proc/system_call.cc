// Dispatch of system calls: from the trap to the function of the call, and back.
#include "proc/system_call_impl.h"

#include "arch/x86_64/time.h"

namespace {

using Handler = Result<int64_t> (*)(const SystemCall& call);

constexpr Handler kHandlers[] = {
#define HANDLER(name, number) [number] = sys_##name,
    ABI_SYSCALLS(HANDLER)
#undef HANDLER
};
static_assert(sizeof(kHandlers) / sizeof(kHandlers[0]) == ABI_SYS_COUNT);

}  // namespace

void system_call(TrapFrame& frame) {
  Task& task = *current_task();
  Thread& thread = *task.thread;
  const uint64_t number = frame.rax;
  if (number != ABI_SYS_errstr) task.error_string[0] = '\0';
  if (number >= ABI_SYS_COUNT) {
    frame.rax = static_cast<uint64_t>(-static_cast<int64_t>(Errno::ENOSYS));
    return;
  }
  thread.call_number = static_cast<int64_t>(number);
  thread.restart = Restart::kAfterHandler;  // unless the call changes it
  const SystemCall call{thread.process,
                        thread,
                        frame,
                        {frame.rdi, frame.rsi, frame.rdx, frame.r10, frame.r8, frame.r9}};
  Result<int64_t> result = kHandlers[number](call);
  thread.restarted = false;
  if (result || result.error() != Errno::EINTR) thread.restart = Restart::kNone;
  if (!result) {
    frame.rax = static_cast<uint64_t>(-static_cast<int64_t>(result.error()));
    return;
  }
  // sigreturn has restored all registers, including rax.
  if (number != ABI_SYS_sigreturn) frame.rax = static_cast<uint64_t>(*result);
}

Result<void> UserPath::copy_any(uint64_t address) {
  TRY(text_.fill());
  size_ = TRY(copy_string_from_user(text_.path(), address, kMaxPath));
  return {};
}
Result<void> UserPath::copy(uint64_t address) {
  TRY(copy_any(address));
  return size_ == 0 ? Errno::ENOENT : Result<void>();
}

Result<void> PathAt::copy(const SystemCall& call, unsigned i, uint32_t flags) {
  flags_ = flags;
  context_ = call.process.path_context();
  TRY(path_.copy_any(call.arguments[i + 1]));
  const bool is_empty = view().empty();
  if (is_empty && !(flags & ABI_AT_EMPTY_PATH)) return Errno::ENOENT;
  if (!is_empty && (view().front() == '/' || view().front() == '#')) return {};
  if (call.integer(i) == ABI_AT_FDCWD) return {};
  Ref<Chan> directory = TRY(fd_get(*call.process.fds, call.integer(i)));
  if (is_empty) {
    directory_ = std::move(directory);
    return {};
  }
  if (!directory->qid.directory) return Errno::ENOTDIR;
  context_.cwd = std::move(directory);
  return {};
}

Result<Ref<Chan>> PathAt::walk() const {
  if (!view().empty())
    return path_walk(context_, view(),
                     flags_ & ABI_AT_SYMLINK_NOFOLLOW ? Links::kNotLast : Links::kFollow);
  if (directory_) return Ref<Chan>(directory_);
  return path_walk(context_, ".");
}

abi_rusage rusage_of(const Usage& usage) {
  return {.user = timespec_of(usage.user),
          .system = timespec_of(usage.system),
          .max_resident = usage.max_resident,
          .minor_faults = usage.minor_faults,
          .major_faults = usage.major_faults,
          .voluntary_switches = usage.voluntary_switches,
          .involuntary_switches = usage.involuntary_switches};
}
