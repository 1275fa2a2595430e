// System calls on time, and small questions about the system.
#include <algorithm>

#include "arch/x86_64/time.h"
#include "core/random.h"
#include "kmalloc.h"
#include "lib/format.h"
#include "lib/string.h"
#include "proc/system_call.h"

namespace {

constexpr int64_t kSecond = 1'000'000'000;
constexpr int kClockReal = 0;

abi_timespec timespec_of(Nanoseconds time) {
  return {static_cast<int64_t>(time.value / kSecond), static_cast<int64_t>(time.value % kSecond)};
}

}  // namespace

Result<int64_t> sys_nanosleep(const SystemCall& call) {
  Process& process = call.process;
  abi_timespec wanted;
  TRY(get_user(call.arguments[0], wanted));
  if (wanted.sec < 0 || wanted.nsec < 0 || wanted.nsec >= kSecond) return Errno::EINVAL;
  if (!process.restarted) {
    const uint64_t seconds =
        std::min<uint64_t>(static_cast<uint64_t>(wanted.sec), INT64_MAX / kSecond / 2);
    process.sleep_deadline =
        monotonic_now() + Nanoseconds{seconds * kSecond + static_cast<uint64_t>(wanted.nsec)};
  }
  const Result<void> slept = task_sleep_until(process.sleep_deadline);
  if (slept) return 0;
  if (call.arguments[1]) {
    const Nanoseconds now = monotonic_now();
    const Nanoseconds left =
        now < process.sleep_deadline ? process.sleep_deadline - now : Nanoseconds{0};
    TRY(put_user(call.arguments[1], timespec_of(left)));
  }
  return slept.error();
}

Result<int64_t> sys_clock_gettime(const SystemCall& call) {
  abi_timespec time = timespec_of(monotonic_now());
  switch (call.integer(0)) {
    case kClockReal:
      time.sec += static_cast<int64_t>(boot_wall_seconds());
      break;
    case 1:
    case 4:
      break;
    default:
      return Errno::EINVAL;
  }
  TRY(put_user(call.arguments[1], time));
  return 0;
}

Result<int64_t> sys_times(const SystemCall& call) {
  const Process& process = call.process;
  if (call.arguments[0]) {
    TRY(put_user(call.arguments[0],
                 rusage_of(process.task->user_ticks, process.task->system_ticks)));
  }
  if (call.arguments[1])
    TRY(put_user(call.arguments[1],
                 rusage_of(process.child_user_ticks, process.child_system_ticks)));
  return 0;
}

Result<int64_t> sys_errstr(const SystemCall& call) {
  const char* const text = current_task()->error_string;
  const size_t size = std::min<uint64_t>(strlen(text) + 1, call.arguments[1]);
  char copy[ABI_ERRSTR_MAX];
  if (size == 0) return Errno::EINVAL;
  memcpy(copy, text, size - 1);
  copy[size - 1] = '\0';
  TRY(copy_to_user(call.arguments[0], copy, size));
  return static_cast<int64_t>(size);
}

Result<int64_t> sys_uname(const SystemCall& call) {
  abi_utsname name{};
  format(name.sysname, sizeof(name.sysname), "Stele");
  format(name.nodename, sizeof(name.nodename), "stele");
  format(name.release, sizeof(name.release), "0.1");
  format(name.version, sizeof(name.version), "%u CPUs", cpu_count());
  format(name.machine, sizeof(name.machine), "x86_64");
  TRY(put_user(call.arguments[0], name));
  return 0;
}

Result<int64_t> sys_getentropy(const SystemCall& call) {
  constexpr size_t kMost = 256;
  if (call.arguments[1] > kMost) return Errno::EIO;
  char bytes[kMost];
  random_fill(bytes, call.arguments[1]);
  TRY(copy_to_user(call.arguments[0], bytes, call.arguments[1]));
  return 0;
}
