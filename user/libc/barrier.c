/* Barriers.
 *
 * One 64-bit word has the number of the round in its high half, and the number of threads that have
 * arrived in its low half. The last thread to arrive advances the round and sets the arrivals to 0.
 * The other threads sleep on the high half until it changes. pthread_barrier_destroy waits until
 * all threads of the last round have left pthread_barrier_wait.
 */
#include <errno.h>
#include <pthread.h>

#include "futex.h"

#define DESTROYED 0x80000000u
#define ROUND (1UL << 32)

static const unsigned* round_of(const pthread_barrier_t* barrier) {
  return (const unsigned*)&barrier->__state + 1;
}

int pthread_barrier_wait(pthread_barrier_t* barrier) {
  const bool shared = barrier->__kind & KIND_SHARED;
  __atomic_fetch_add(&barrier->__inside, 1, __ATOMIC_RELAXED);
  unsigned long state = __atomic_load_n(&barrier->__state, __ATOMIC_RELAXED), next;
  int is_last;
  do {
    is_last = (unsigned)state + 1 == barrier->__limit;
    next = is_last ? (state & ~(ROUND - 1)) + ROUND : state + 1;
  } while (!__atomic_compare_exchange_n(&barrier->__state, &state, next, 0, __ATOMIC_ACQ_REL,
                                        __ATOMIC_RELAXED));
  const unsigned round = (unsigned)(state / ROUND);
  if (is_last) {
    futex_wake(round_of(barrier), EVERYBODY, shared);
  } else {
    while (__atomic_load_n(round_of(barrier), __ATOMIC_ACQUIRE) == round)
      futex_wait(round_of(barrier), round, shared, CLOCK_MONOTONIC, NULL);
  }
  if (__atomic_fetch_sub(&barrier->__inside, 1, __ATOMIC_ACQ_REL) == (DESTROYED | 1))
    futex_wake(&barrier->__inside, EVERYBODY, shared);
  return is_last ? PTHREAD_BARRIER_SERIAL_THREAD : 0;
}

int pthread_barrier_init(pthread_barrier_t* restrict barrier,
                         const pthread_barrierattr_t* restrict attributes, unsigned count) {
  if (count == 0 || count >= DESTROYED) return EINVAL;
  *barrier =
      (pthread_barrier_t){.__limit = count, .__kind = attributes != NULL ? attributes->__kind : 0};
  return 0;
}
int pthread_barrier_destroy(pthread_barrier_t* barrier) {
  if ((unsigned)__atomic_load_n(&barrier->__state, __ATOMIC_ACQUIRE) != 0) return EBUSY;
  unsigned inside = __atomic_or_fetch(&barrier->__inside, DESTROYED, __ATOMIC_ACQ_REL);
  while (inside != DESTROYED) {
    futex_wait(&barrier->__inside, inside, barrier->__kind & KIND_SHARED, CLOCK_MONOTONIC, NULL);
    inside = __atomic_load_n(&barrier->__inside, __ATOMIC_ACQUIRE);
  }
  return 0;
}

int pthread_barrierattr_init(pthread_barrierattr_t* attributes) {
  attributes->__kind = 0;
  return 0;
}
int pthread_barrierattr_destroy(pthread_barrierattr_t* attributes) {
  (void)attributes;
  return 0;
}
