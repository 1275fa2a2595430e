// Timers of a process: the alarm (ITIMER_REAL), timers of processor time, and POSIX timers. The
// theory is in timers.cc.
#pragma once

#include <atomic>
#include <cstdint>

#include "abi/syscall.h"
#include "core/spinlock.h"
#include "lib/list.h"
#include "lib/result.h"
#include "lib/units.h"
#include "proc/pending_signals_impl.h"
#include "proc/user_account.h"
#include "sched/timer.h"

struct Process;
extern Spinlock process_lock;  // process_impl.h

// The time until a timer's next expiration, and its period.
struct TimerSetting {
  Nanoseconds left;      // 0: not armed
  Nanoseconds interval;  // 0: the timer expires once
};

// Expires at a time of the monotonic clock. The process arms the timer with timers_mutex held; the
// callback arms it again without this mutex.
struct IntervalTimer {
  Timer timer{};
  Process* process = nullptr;
  // Under process_lock.
  Nanoseconds deadline;  // 0: not armed
  Nanoseconds interval;
};

// Counts down processor time. Under process_lock.
using CpuTimer = TimerSetting;

struct PosixTimer : IntervalTimer {
  int id = 0;
  int clock = 0;
  bool signals = false;  // an expiration sends the signal (ABI_SIGEV_SIGNAL)
  // Under process_lock.
  bool rests = false;     // has expired, and is armed again when its signal is taken or discarded
  QueuedSignal signal;    // queued while the signal is pending
  uint64_t overruns = 0;  // expirations after the one that made the signal pending
  uint64_t last_overruns = 0;  // overruns of the signal that was taken last
  ListNode link;
  Charge charge;
};

inline constexpr int kMaxTimers = 32;

struct ProcessTimers {
  IntervalTimer alarm;
  CpuTimer user, all;  // ITIMER_VIRTUAL, ITIMER_PROF
  List<PosixTimer, &PosixTimer::link>
      posix;  // changed under the process's timers_mutex and process_lock, read under timers_mutex
  std::atomic<bool> used{false};  // CPU time must be counted, as follows
  // Under process_lock. The CPU time of the process; exact to a tick for each thread.
  Nanoseconds cpu_time;
  // Seconds of CPU time at the last check of RLIMIT_CPU, which is checked once in each second.
  uint64_t seconds_checked = 0;
};

// The functions from timer_get to timers_end are called for the current process, without
// process_lock. The caller holds the process's timers_mutex, or the process has only one thread.
// posix_timer_create may sleep. posix_timer_overrun and posix_timer_goes_on differ: they need
// process_lock alone.

// Get or set the timer `which`, one of ABI_ITIMER_*. EINVAL.
Result<TimerSetting> timer_get(Process& process, int which);
Result<void> timer_set(Process& process, int which, const TimerSetting& setting);
// Returns the id of a new timer. EAGAIN when the process has kMaxTimers, or its user has too many;
// EINVAL, ENOTSUP, ENOMEM.
Result<int> posix_timer_create(Process& process, int clock, const abi_sigevent* event);
// Finds the timer with this id. EINVAL if there is none.
Result<PosixTimer*> posix_timer_find(Process& process, int id);
// Returns the overruns of the timer's signal that was taken last, at most INT32_MAX.
int32_t posix_timer_overrun(const PosixTimer& timer) REQUIRES(process_lock);
TimerSetting posix_timer_get(PosixTimer& timer);
void posix_timer_set(PosixTimer& timer, const TimerSetting& setting);
void posix_timer_delete(PosixTimer* timer);
// The timer's signal has been taken or discarded. If the timer rests, counts the expirations since
// then as overruns, and arms the timer.
void posix_timer_goes_on(PosixTimer& timer) REQUIRES(process_lock);
// posix_timers_delete is called at exec, timers_end when the process ends.
void posix_timers_delete(Process& process);
void timers_end(Process& process);
// Called when RLIMIT_CPU has been set, or inherited by a fork.
void timers_cpu_limited(Process& process);
void process_timers_init();
