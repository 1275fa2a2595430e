/* Waiting on a word of memory. Internal to user/libc. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "cancel.h"
#include "syscall.h"

/* Kinds of objects have this bit when several processes use them. */
#define KIND_SHARED 0x80u

static inline bool is_time(const struct timespec* time) {
  return time == NULL || (time->tv_nsec >= 0 && time->tv_nsec < 1000000000);
}

/* Waits while *word is `value`, until a wake, or until the clock reaches the deadline (NULL: no
 * deadline). 0, or an error number: EAGAIN the value is another one, EINTR, ETIMEDOUT, EINVAL. */
static inline int futex_wait(const volatile unsigned* word, unsigned value, bool shared,
                             clockid_t clock, const struct timespec* deadline) {
  if (!is_time(deadline)) return EINVAL;
  return (int)-syscall6(ABI_SYS_futex, shared ? ABI_FUTEX_WAIT_SHARED : ABI_FUTEX_WAIT, (long)word,
                        value, clock, (long)deadline, 0);
}
/* The same in a cancellation point; with cancellation reported, ECANCELED. */
static inline int futex_wait_cancellable(const volatile unsigned* word, unsigned value, bool shared,
                                         clockid_t clock, const struct timespec* deadline) {
  if (!is_time(deadline)) return EINVAL;
  return (int)-cancellable6(ABI_SYS_futex, shared ? ABI_FUTEX_WAIT_SHARED : ABI_FUTEX_WAIT,
                            (long)word, value, clock, (long)deadline, 0);
}

/* The word may no longer exist: other threads may have freed it as soon as it had the value that
 * they waited for. The kernel then wakes no thread, or one that checks its condition again. */
static inline void futex_wake(const volatile unsigned* word, unsigned count, bool shared) {
  syscall6(ABI_SYS_futex, shared ? ABI_FUTEX_WAKE_SHARED : ABI_FUTEX_WAKE, (long)word, count, 0, 0,
           0);
}
#define EVERYBODY 0x7fffffffu
