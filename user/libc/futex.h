/* Waiting on a word of memory. Internal to user/libc. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "cancel.h"
#include "syscall.h"

/* This bit is set in the kind of an object that several processes use. */
#define KIND_SHARED 0x80u

static inline bool is_time(const struct timespec* time) {
  return time == NULL || (time->tv_nsec >= 0 && time->tv_nsec < 1000000000);
}

/* True if timed waits may use this clock. */
static inline bool is_wait_clock(clockid_t clock) {
  return clock == CLOCK_REALTIME || clock == CLOCK_MONOTONIC;
}

/* If *word is `value`, waits for a wake, at most until the clock reaches the deadline (NULL: no
 * deadline). Returns 0, or an error number: EAGAIN (*word is not `value`), EINTR, ETIMEDOUT,
 * EINVAL. */
static inline int futex_wait(const volatile unsigned* word, unsigned value, bool shared,
                             clockid_t clock, const struct timespec* deadline) {
  if (!is_time(deadline)) return EINVAL;
  return (int)-stele_call(ABI_SYS_futex, shared ? ABI_FUTEX_WAIT_SHARED : ABI_FUTEX_WAIT,
                          (long)word, value, clock, (long)deadline, 0);
}
/* futex_wait as a cancellation point. In mode CANCEL_REPORTED, returns ECANCELED if the thread is
 * cancelled. */
static inline int futex_wait_cancellable(const volatile unsigned* word, unsigned value, bool shared,
                                         clockid_t clock, const struct timespec* deadline) {
  if (!is_time(deadline)) return EINVAL;
  return (int)-cancellable6(ABI_SYS_futex, shared ? ABI_FUTEX_WAIT_SHARED : ABI_FUTEX_WAIT,
                            (long)word, value, clock, (long)deadline, 0);
}

/* Wakes up to `count` waiters. The word's memory may already be freed, because a waiter may free
 * the memory as soon as it sees the new value. In this case the kernel wakes no thread, or wakes a
 * thread that uses the memory for another futex. That thread checks its condition again. */
static inline void futex_wake(const volatile unsigned* word, unsigned count, bool shared) {
  stele_call(ABI_SYS_futex, shared ? ABI_FUTEX_WAKE_SHARED : ABI_FUTEX_WAKE, (long)word, count, 0,
             0, 0);
}
#define EVERYBODY 0x7fffffffu
