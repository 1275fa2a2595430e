// Timers of a process.
//
// The alarm (ITIMER_REAL) and the POSIX timers are IntervalTimers. An IntervalTimer contains a
// timer of the scheduler. The callback of the scheduler's timer sends the signal. If the
// IntervalTimer has an interval, the callback also arms the scheduler's timer again, on the same
// CPU.
//
// Apart from the callback, only the threads of the process arm its timers. timers_mutex lets one
// thread at a time do this. The thread first calls timer_cancel, which waits for a running
// callback. timer_cancel is also called when a timer is deleted and when the process ends, so no
// callback uses a timer or a process that is gone. The callback takes process_lock, so timer_cancel
// is called without process_lock.
//
// A POSIX timer contains the QueuedSignal for its signal, so expiring allocates nothing. While the
// signal is pending, the timer rests: it is not armed. When the signal is taken or discarded, the
// expirations of the meantime are counted as overruns, and the timer is armed for the next one. A
// timer without a signal (SIGEV_NONE) is never armed; its setting is computed when it is asked for.
// So a timer costs at most one callback in a tick, and one callback for each signal that a process
// takes.
//
// ITIMER_VIRTUAL, ITIMER_PROF and RLIMIT_CPU count CPU time, which the scheduler tells in each tick
// and after a thread has slept (sched_register_cpu_time). A process that uses none of these three
// costs one check each time. As POSIX requires, exec deletes POSIX timers and keeps all other
// timers, and a forked child starts without any timer.
#include "proc/timers_impl.h"

#include <algorithm>

#include "arch/x86_64/time.h"
#include "core/errstr.h"
#include "core/planted.h"
#include "kmalloc.h"
#include "proc/process_impl.h"

namespace {

constinit ObjectCache<PosixTimer> timer_cache;

// Called when the timer has expired. Arms the timer again if it has an interval. Returns the number
// of expirations since the timer was last armed.
uint64_t expire(IntervalTimer& timer) REQUIRES(process_lock) {
  if (timer.interval.value == 0) {
    timer.deadline = {};
    return 1;
  }
  const Nanoseconds now = std::max(monotonic_now(), timer.deadline);
  const uint64_t times =
      planted(Planted::kTimerStorm) ? 1 : (now - timer.deadline).value / timer.interval.value + 1;
  timer.deadline = timer.deadline + Nanoseconds{times * timer.interval.value};
  timer_arm(timer.timer, timer.deadline);
  return times;
}

void alarm_expired(void* argument) {
  auto& alarm = *static_cast<IntervalTimer*>(argument);
  const Guard guard(process_lock);
  expire(alarm);
  signal_post(*alarm.process, ABI_SIGALRM);
}

void posix_timer_expired(void* argument) {
  auto& timer = *static_cast<PosixTimer*>(argument);
  const Guard guard(process_lock);
  if (planted(Planted::kTimerStorm) && !timer.signals) {
    expire(timer);
    return;
  }
  const bool repeats = timer.interval.value != 0;
  if (timer.signal.link.linked()) {  // of an earlier setting
    timer.overruns++;
  } else {
    timer.overruns = 0;
    signal_post_queued(*timer.process, timer.signal);
  }
  timer.rests = repeats && timer.signal.link.linked();
  if (!timer.rests) expire(timer);  // no interval, or the process ignores the signal
}

TimerSetting setting_of(const IntervalTimer& timer) REQUIRES(process_lock) {
  if (timer.deadline.value == 0) return {};
  const Nanoseconds now = monotonic_now();
  if (timer.deadline <= now && timer.interval.value != 0) {
    const uint64_t since = (now - timer.deadline).value % timer.interval.value;
    return {.left = {timer.interval.value - since}, .interval = timer.interval};
  }
  // A timer that has not expired has a `left` that is not 0, even if the deadline has passed.
  const Nanoseconds left = timer.deadline > now ? timer.deadline - now : Nanoseconds{1};
  return {.left = left, .interval = timer.interval};
}

// Ends the timer's expirations. On return its callback does not run, and nothing arms it again.
// `rests` is the PosixTimer's, if it is one.
void disarm(IntervalTimer& timer, bool* rests = nullptr) {
  {
    const Guard guard(process_lock);
    timer.interval = {};
    if (rests) *rests = false;
  }
  timer_cancel(timer.timer);
}

// Sets a timer that disarm() has disarmed. `expired` is nullptr for a timer that is not to be
// armed.
void arm(IntervalTimer& timer, void (*expired)(void*), const TimerSetting& setting) {
  const Guard guard(process_lock);
  timer.timer.callback = expired;
  timer.timer.argument = &timer;
  timer.interval = setting.interval;
  timer.deadline = {};
  if (setting.left.value == 0) return;
  const Nanoseconds now = monotonic_now();
  timer.deadline = now + std::min(setting.left, Nanoseconds{UINT64_MAX} - now);
  if (expired) timer_arm(timer.timer, timer.deadline);
}

void count_down(Process& process, CpuTimer& timer, Nanoseconds used, int signal)
    REQUIRES(process_lock) {
  if (timer.left.value == 0) return;
  if (used < timer.left) {
    timer.left = timer.left - used;
    return;
  }
  timer.left = timer.interval;
  signal_post(process, signal);
}

// The scheduler's hook: the current task has used CPU time. Interrupts off.
void cpu_time_used(Task& task, Nanoseconds user, Nanoseconds system) {
  Process* const process = task.process;
  if (!process || !process->timers.used) return;
  const Guard guard(process_lock);
  ProcessTimers& timers = process->timers;
  count_down(*process, timers.user, user, ABI_SIGVTALRM);
  count_down(*process, timers.all, user + system, ABI_SIGPROF);
  timers.cpu_time = timers.cpu_time + user + system;
  const abi_rlimit& limit = process->limits.of[ABI_RLIMIT_CPU];
  const uint64_t seconds = timers.cpu_time.value / 1'000'000'000;
  if (seconds <= process->timers.seconds_checked) return;
  process->timers.seconds_checked = seconds;
  if (seconds >= limit.maximum) {
    signal_post(*process, ABI_SIGKILL);
  } else if (seconds >= limit.current) {
    signal_post(*process, ABI_SIGXCPU);
  }
}

void update_used(Process& process) REQUIRES(process_lock) {
  ProcessTimers& timers = process.timers;
  const bool used = timers.user.left.value || timers.all.left.value ||
                    process.limits.soft(ABI_RLIMIT_CPU) != ABI_RLIM_INFINITY;
  if (used && !timers.used) {
    const Usage usage = process_usage(process);
    timers.cpu_time = usage.user + usage.system;
  }
  timers.used = used;
}

// Returns the process's CpuTimer for `which`, one of ABI_ITIMER_*; nullptr for the alarm.
CpuTimer* cpu_timer(Process& process, int which) {
  if (which == ABI_ITIMER_VIRTUAL) return &process.timers.user;
  return which == ABI_ITIMER_PROF ? &process.timers.all : nullptr;
}

int lowest_free_id(Process& process) {
  int id = 0;
  while (posix_timer_find(process, id)) id++;
  return id;
}

}  // namespace

Result<TimerSetting> timer_get(Process& process, int which) {
  if (which < ABI_ITIMER_REAL || which > ABI_ITIMER_PROF) return Errno::EINVAL;
  const Guard guard(process_lock);
  const CpuTimer* const timer = cpu_timer(process, which);
  return timer ? *timer : setting_of(process.timers.alarm);
}

Result<void> timer_set(Process& process, int which, const TimerSetting& setting) {
  if (which < ABI_ITIMER_REAL || which > ABI_ITIMER_PROF) return Errno::EINVAL;
  CpuTimer* const timer = cpu_timer(process, which);
  if (!timer) {
    process.timers.alarm.process = &process;
    disarm(process.timers.alarm);
    arm(process.timers.alarm, alarm_expired, setting);
    return {};
  }
  const Guard guard(process_lock);
  *timer = setting;
  update_used(process);
  return {};
}

void timers_cpu_limited(Process& process) {
  const Guard guard(process_lock);
  update_used(process);
}

Result<int> posix_timer_create(Process& process, int clock, const abi_sigevent* event) {
  const int id = lowest_free_id(process);
  if (id == kMaxTimers) return Errno::EAGAIN;
  const abi_sigevent usual{
      .notify = ABI_SIGEV_SIGNAL, .signal = ABI_SIGALRM, .value = static_cast<uint64_t>(id)};
  if (!event) event = &usual;
  if (event->notify == ABI_SIGEV_THREAD) return Errno::ENOTSUP;
  if (event->notify != ABI_SIGEV_NONE && event->notify != ABI_SIGEV_SIGNAL) return Errno::EINVAL;
  const bool signals = event->notify == ABI_SIGEV_SIGNAL;
  if (signals && (event->signal <= 0 || event->signal >= ABI_SIGNAL_COUNT)) return Errno::EINVAL;
  Charge charge = TRY(charge_current(Charged::kTimer));
  PosixTimer* const timer = TRY(timer_cache.make(KM_SLEEP));
  timer->charge = std::move(charge);
  timer->process = &process;
  timer->id = id;
  timer->clock = clock;
  timer->signals = signals;
  timer->signal.signal = event->signal;
  timer->signal.info = {.code = ABI_SI_TIMER, .word = event->value};
  timer->signal.timer = timer;
  const Guard guard(process_lock);
  process.timers.posix.push_back(*timer);
  return id;
}

Result<PosixTimer*> posix_timer_find(Process& process, int id) {
  for (PosixTimer& timer : process.timers.posix) {
    if (timer.id == id) return &timer;
  }
  return Errno::EINVAL;
}

int32_t posix_timer_overrun(const PosixTimer& timer) {
  return static_cast<int32_t>(std::min<uint64_t>(timer.last_overruns, INT32_MAX));
}

TimerSetting posix_timer_get(PosixTimer& timer) {
  const Guard guard(process_lock);
  if (!timer.signals && timer.interval.value == 0 && timer.deadline <= monotonic_now()) return {};
  return setting_of(timer);
}

void posix_timer_goes_on(PosixTimer& timer) {
  if (!timer.rests) return;
  timer.rests = false;
  timer.overruns += expire(timer) - 1;
}

void posix_timer_set(PosixTimer& timer, const TimerSetting& setting) {
  disarm(timer, &timer.rests);
  const bool is_armed = timer.signals || planted(Planted::kTimerStorm);
  arm(timer, is_armed ? posix_timer_expired : nullptr, setting);
}

void posix_timer_delete(PosixTimer* timer) {
  disarm(*timer, &timer->rests);
  {
    const Guard guard(process_lock);
    timer->link.unlink();
    timer->process->signals.withdraw(timer->signal);
  }
  timer_cache.destroy(timer);
}

void posix_timers_delete(Process& process) {
  while (PosixTimer* const timer = process.timers.posix.front()) posix_timer_delete(timer);
}

void timers_end(Process& process) {
  timer_cancel(process.timers.alarm.timer);
  posix_timers_delete(process);
  process.timers.used = false;
}

void process_timers_init() {
  timer_cache.init("posix_timer");
  sched_register_cpu_time(cpu_time_used);
}
