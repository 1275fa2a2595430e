/* Semaphores. One 64-bit word has the value in its low half and the number of waiters in its high
 * half. So the atomic operation with which sem_post raises the value also returns the number of
 * waiters. sem_post does not read the semaphore after this operation, because another thread may
 * then destroy the semaphore (glibc's algorithm, nptl/sem_waitcommon.c). */
#include <semaphore.h>

#include <errno.h>

#include "futex.h"

#define ONE_WAITER (1UL << 32)

static unsigned* value_of(sem_t* semaphore) {
  return (unsigned*)&semaphore->__state;
}
static int fail(int error) {
  errno = error;
  return -1;
}

int sem_init(sem_t* semaphore, int shared, unsigned value) {
  if (value > SEM_VALUE_MAX) return fail(EINVAL);
  *semaphore = (sem_t){.__state = value, .__kind = shared ? KIND_SHARED : 0};
  return 0;
}
int sem_destroy(sem_t* semaphore) {
  (void)semaphore;
  return 0;
}
int sem_getvalue(sem_t* restrict semaphore, int* restrict value) {
  *value = (int)__atomic_load_n(value_of(semaphore), __ATOMIC_RELAXED);
  return 0;
}

/* If the value is not 0, lowers it by 1 and the number of waiters by `waiter` (0 or ONE_WAITER). */
static bool take(sem_t* semaphore, unsigned long waiter) {
  unsigned long state = __atomic_load_n(&semaphore->__state, __ATOMIC_RELAXED);
  while ((unsigned)state > 0) {
    if (__atomic_compare_exchange_n(&semaphore->__state, &state, state - 1 - waiter, 0,
                                    __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
      return true;
  }
  return false;
}

int sem_trywait(sem_t* semaphore) {
  return take(semaphore, 0) ? 0 : fail(EAGAIN);
}

int sem_clockwait(sem_t* restrict semaphore, clockid_t clock,
                  const struct timespec* restrict deadline) {
  if (!is_wait_clock(clock)) return fail(EINVAL);
  pthread_testcancel();
  if (take(semaphore, 0)) return 0;
  if (!is_time(deadline)) return fail(EINVAL);
  const bool shared = semaphore->__kind & KIND_SHARED;
  /* A cancellation does not end the thread during the wait. The wait reports the cancellation, this
   * function lowers the number of waiters, and then the thread ends. */
  const enum cancel_mode mode = SELF(cancel_mode);
  if (mode == CANCEL_ENABLED) SELF(cancel_mode) = CANCEL_REPORTED;
  __atomic_fetch_add(&semaphore->__state, ONE_WAITER, __ATOMIC_RELAXED);
  int error = 0;
  while (!take(semaphore, ONE_WAITER)) {
    error = futex_wait_cancellable(value_of(semaphore), 0, shared, clock, deadline);
    if (error == 0 || error == EAGAIN) continue;
    __atomic_fetch_sub(&semaphore->__state, ONE_WAITER, __ATOMIC_RELAXED);
    break;
  }
  SELF(cancel_mode) = mode;
  if (error == 0 || error == EAGAIN) return 0;
  if (error == ECANCELED) pthread_testcancel();
  return fail(error);
}
int sem_timedwait(sem_t* restrict semaphore, const struct timespec* restrict deadline) {
  return sem_clockwait(semaphore, CLOCK_REALTIME, deadline);
}
int sem_wait(sem_t* semaphore) {
  return sem_clockwait(semaphore, CLOCK_REALTIME, NULL);
}

int sem_post(sem_t* semaphore) {
  const bool shared = semaphore->__kind & KIND_SHARED;
  unsigned long state = __atomic_load_n(&semaphore->__state, __ATOMIC_RELAXED);
  do {
    if ((unsigned)state == SEM_VALUE_MAX) return fail(EOVERFLOW);
  } while (!__atomic_compare_exchange_n(&semaphore->__state, &state, state + 1, 0, __ATOMIC_RELEASE,
                                        __ATOMIC_RELAXED));
  if (state >= ONE_WAITER) futex_wake(value_of(semaphore), 1, shared);
  return 0;
}
