// System calls on time; also errstr, uname and getentropy.
#include <algorithm>

#include "arch/x86_64/time.h"
#include "core/random.h"
#include "kmalloc.h"
#include "lib/format.h"
#include "lib/string.h"
#include "proc/system_call_impl.h"

namespace {

constexpr int64_t kSecond = 1'000'000'000;

// Tasks that sleep until a time of day. When the clock is set, the tasks wake up and compute their
// deadlines again.
constinit Spinlock clock_lock{LockRank::kDevice};
constinit WaitQueue clock_sleepers;
constinit uint64_t clock_sets GUARDED_BY(clock_lock) = 0;

bool is_monotonic(int clock) {
  return clock >= ABI_CLOCK_MONOTONIC && clock <= ABI_CLOCK_BOOTTIME;
}

// Sleeps until a time of day. EINTR.
Result<void> sleep_until_wall(Nanoseconds time) {
  for (;;) {
    const Guard guard(clock_lock);
    const uint64_t seen = clock_sets;
    const Result<void> waited = clock_sleepers.wait(
        clock_lock, [&]() REQUIRES(clock_lock) { return clock_sets != seen; },
        deadline_at(ABI_CLOCK_REALTIME, time));
    if (waited) continue;
    if (waited.error() == Errno::ETIMEDOUT) return {};
    return waited;
  }
}

Result<void> put_left(uint64_t address, Nanoseconds deadline) {
  const Nanoseconds now = monotonic_now();
  return put_user(address, timespec_of(now < deadline ? deadline - now : Nanoseconds{0}));
}

}  // namespace

abi_timespec timespec_of(Nanoseconds time) {
  return {static_cast<int64_t>(time.value / kSecond), static_cast<int64_t>(time.value % kSecond)};
}

Result<Nanoseconds> duration_of(const abi_timespec& time) {
  if (time.sec < 0 || time.nsec < 0 || time.nsec >= kSecond) return Errno::EINVAL;
  if (time.sec >= INT64_MAX / kSecond) return Nanoseconds{INT64_MAX};
  return Nanoseconds{static_cast<uint64_t>(time.sec * kSecond + time.nsec)};
}

Result<Nanoseconds> get_duration(uint64_t address) {
  abi_timespec time;
  TRY(get_user(address, time));
  return duration_of(time);
}

Nanoseconds deadline_after(Nanoseconds duration) {
  return monotonic_now() + duration;  // no overflow: both have at most 63 bits
}

Nanoseconds deadline_at(int clock, Nanoseconds time) {
  if (clock != ABI_CLOCK_REALTIME) return time;
  const Nanoseconds now = wall_now();
  return time > now ? monotonic_now() + (time - now) : Nanoseconds{0};
}

Result<int64_t> sys_nanosleep(const SystemCall& call) {
  call.thread.restart = Restart::kUnlessHandled;
  const int clock = call.integer(0);
  const bool absolute = call.integer(1) & ABI_TIMER_ABSTIME;
  const uint64_t left = call.arguments[3];
  if (clock != ABI_CLOCK_REALTIME && clock != ABI_CLOCK_MONOTONIC && clock != ABI_CLOCK_BOOTTIME)
    return Errno::EINVAL;
  const Nanoseconds time = TRY(get_duration(call.arguments[2]));
  if (absolute) {
    if (clock == ABI_CLOCK_REALTIME) {
      TRY(sleep_until_wall(time));
    } else {
      TRY(task_sleep_until(time));
    }
    return 0;
  }
  Thread& thread = call.thread;
  if (!thread.restarted) thread.sleep_deadline = deadline_after(time);
  const Result<void> slept = task_sleep_until(thread.sleep_deadline);
  if (slept) return 0;
  if (left) TRY(put_left(left, thread.sleep_deadline));
  return slept.error();
}

Result<int64_t> sys_clock_gettime(const SystemCall& call) {
  const int clock = call.integer(0);
  Nanoseconds time, resolution{1};
  if (clock == ABI_CLOCK_REALTIME || clock == ABI_CLOCK_REALTIME_COARSE) {
    time = wall_now();
  } else if (is_monotonic(clock)) {
    time = monotonic_now();
  } else if (clock == ABI_CLOCK_PROCESS_CPUTIME_ID || clock == ABI_CLOCK_THREAD_CPUTIME_ID) {
    const Guard guard(process_lock);
    const Usage usage = clock == ABI_CLOCK_THREAD_CPUTIME_ID ? thread_usage(call.thread)
                                                             : process_usage(call.process);
    time = usage.user + usage.system;
  } else {
    return Errno::EINVAL;
  }
  if (call.arguments[1]) TRY(put_user(call.arguments[1], timespec_of(time)));
  if (call.arguments[2]) TRY(put_user(call.arguments[2], timespec_of(resolution)));
  return 0;
}

// A timer that is armed for a time of day does not notice that the clock is set: the timer expires
// at the monotonic time that was computed when it was armed.
Result<int64_t> sys_clock_settime(const SystemCall& call) {
  if (call.integer(0) != ABI_CLOCK_REALTIME) return Errno::EINVAL;
  const Nanoseconds time = TRY(get_duration(call.arguments[1]));
  if (call.process.credentials().uid != 0) return Errno::EPERM;
  wall_set(time);
  const Guard guard(clock_lock);
  clock_sets++;
  clock_sleepers.wake_all();
  return 0;
}

Result<int64_t> sys_times(const SystemCall& call) {
  Usage self, children;
  {
    const Guard guard(process_lock);
    self = process_usage(call.process);
    children = call.process.child_usage;
  }
  if (call.arguments[0]) TRY(put_user(call.arguments[0], rusage_of(self)));
  if (call.arguments[1]) TRY(put_user(call.arguments[1], rusage_of(children)));
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
