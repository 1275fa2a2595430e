// System calls on timers.
#include <algorithm>

#include "arch/x86_64/time.h"
#include "core/errstr.h"
#include "proc/system_call_impl.h"

namespace {

abi_itimerspec itimerspec_of(const TimerSetting& setting) {
  return {.interval = timespec_of(setting.interval), .value = timespec_of(setting.left)};
}

Result<TimerSetting> get_setting(uint64_t address) {
  abi_itimerspec spec;
  TRY(get_user(address, spec));
  TimerSetting setting;
  setting.left = TRY(duration_of(spec.value));
  setting.interval = TRY(duration_of(spec.interval));
  return setting;
}

// Finds the timer of argument 0. The timer stays valid while the process's timers_mutex is held.
Result<PosixTimer*> get_timer(const SystemCall& call) {
  return posix_timer_find(call.process, call.integer(0));
}

}  // namespace

Result<int64_t> sys_setitimer(const SystemCall& call) {
  const MutexGuard timers(call.process.timers_mutex);
  const int which = call.integer(0);
  const TimerSetting old = TRY(timer_get(call.process, which));
  if (call.arguments[1]) {
    const TimerSetting setting = TRY(get_setting(call.arguments[1]));
    TRY(timer_set(call.process, which, setting));
  }
  if (call.arguments[2]) TRY(put_user(call.arguments[2], itimerspec_of(old)));
  return 0;
}

Result<int64_t> sys_timer_create(const SystemCall& call) {
  const int clock = call.integer(0);
  switch (clock) {
    case ABI_CLOCK_REALTIME:
    case ABI_CLOCK_MONOTONIC:
    case ABI_CLOCK_BOOTTIME:
      break;
    case ABI_CLOCK_PROCESS_CPUTIME_ID:
    case ABI_CLOCK_THREAD_CPUTIME_ID:
      return fail(Errno::ENOTSUP, "only setitimer has timers for processor time");
    default:
      return Errno::EINVAL;
  }
  abi_sigevent event;
  if (call.arguments[1]) TRY(get_user(call.arguments[1], event));
  const MutexGuard timers(call.process.timers_mutex);
  return TRY(posix_timer_create(call.process, clock, call.arguments[1] ? &event : nullptr));
}

Result<int64_t> sys_timer_settime(const SystemCall& call) {
  const MutexGuard timers(call.process.timers_mutex);
  PosixTimer& timer = *TRY(get_timer(call));
  TimerSetting setting = TRY(get_setting(call.arguments[2]));
  const bool absolute = call.integer(1) & ABI_TIMER_ABSTIME;
  if (absolute && setting.left.value != 0) {
    const Nanoseconds deadline = deadline_at(timer.clock, setting.left), now = monotonic_now();
    setting.left = deadline > now ? deadline - now : Nanoseconds{1};
  }
  const TimerSetting old = posix_timer_get(timer);
  posix_timer_set(timer, setting);
  if (call.arguments[3]) TRY(put_user(call.arguments[3], itimerspec_of(old)));
  return 0;
}

Result<int64_t> sys_timer_gettime(const SystemCall& call) {
  const MutexGuard timers(call.process.timers_mutex);
  PosixTimer& timer = *TRY(get_timer(call));
  TRY(put_user(call.arguments[1], itimerspec_of(posix_timer_get(timer))));
  return 0;
}

Result<int64_t> sys_timer_overrun(const SystemCall& call) {
  const MutexGuard timers(call.process.timers_mutex);
  const PosixTimer& timer = *TRY(get_timer(call));
  const Guard guard(process_lock);
  return posix_timer_overrun(timer);
}

Result<int64_t> sys_timer_delete(const SystemCall& call) {
  const MutexGuard timers(call.process.timers_mutex);
  posix_timer_delete(TRY(get_timer(call)));
  return 0;
}
