/* System calls that are cancellation points. Internal to user/libc. */
#pragma once

#include "syscall.h"
#include "thread.h"

/* Defined in cancel.c. */
long __stele_cancellable(volatile int* cancelled, long number, long a, long b, long c, long d,
                         long e, long f);
long __stele_cancel(void);

/* stele_call as a cancellation point: does not return if the thread is cancelled before the call or
 * while the call waits. In mode CANCEL_REPORTED, returns -ECANCELED instead of ending the
 * thread. */
static inline long cancellable6(long number, long a, long b, long c, long d, long e, long f) {
  /* The first condition is for a process with one thread. There, no cancellation signal arrives,
   * because the thread can only have cancelled itself. */
  if ((__libc_single_threaded && !SELF(cancelled)) || SELF(cancel_mode) == CANCEL_DISABLED)
    return stele_call(number, a, b, c, d, e, f);
  long result = __stele_cancellable(&thread_self()->cancelled, number, a, b, c, d, e, f);
  if (result == -EINTR && SELF(cancelled) && SELF(cancel_mode) != CANCEL_DISABLED)
    result = __stele_cancel();
  return result;
}

#define CANCELLABLE6(name, a, b, c, d, e, f)                                              \
  __stele_result(cancellable6(ABI_SYS_##name, (long)(a), (long)(b), (long)(c), (long)(d), \
                              (long)(e), (long)(f)))
#define CANCELLABLE4(name, a, b, c, d) CANCELLABLE6(name, a, b, c, d, 0, 0)
#define CANCELLABLE3(name, a, b, c) CANCELLABLE6(name, a, b, c, 0, 0, 0)
#define CANCELLABLE2(name, a, b) CANCELLABLE6(name, a, b, 0, 0, 0, 0)
#define CANCELLABLE1(name, a) CANCELLABLE6(name, a, 0, 0, 0, 0, 0)
