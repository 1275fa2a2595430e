/* Mutexes.
 *
 * A mutex's word is 0 (free), 1 (held) or 2 (held, perhaps with waiters). A thread that has waited
 * sets the word to 2 when it takes the mutex, since others may still wait (Drepper, "Futexes Are
 * Tricky", 2011, mutex 2). Taking a free mutex, and releasing a mutex without waiters, needs no
 * system call. pthread_mutex_unlock does not access the mutex after it has set the word to 0: the
 * next holder may destroy the mutex.
 *
 * Recursive and error-checking mutexes also store their owner: the address of the thread's
 * structure, which stays valid in the child of a fork. A mutex that processes share stores the
 * kernel's thread id instead.
 */
#include <errno.h>
#include <pthread.h>

#include "futex.h"
#include "thread.h"

enum { FREE, HELD, WAITED_FOR };
enum { SPINS = 64 };

static unsigned long me(const pthread_mutex_t* mutex) {
  return mutex->__kind & KIND_SHARED ? __stele_thread_id(thread_self())
                                     : (unsigned long)thread_self();
}
static bool has_owner(const pthread_mutex_t* mutex) {
  return (mutex->__kind & ~KIND_SHARED) != PTHREAD_MUTEX_NORMAL;
}
static bool is_mine(const pthread_mutex_t* mutex) {
  return __atomic_load_n(&mutex->__owner, __ATOMIC_RELAXED) == me(mutex);
}

static bool take(pthread_mutex_t* mutex) {
  unsigned expected = FREE;
  return __atomic_compare_exchange_n(&mutex->__word, &expected, HELD, 0, __ATOMIC_ACQUIRE,
                                     __ATOMIC_RELAXED);
}

/* Returns 0, ETIMEDOUT or EINVAL. */
static int wait_for(pthread_mutex_t* mutex, clockid_t clock, const struct timespec* deadline) {
  const bool shared = mutex->__kind & KIND_SHARED;
  for (int i = 0; i < SPINS; i++) {
    const unsigned word = __atomic_load_n(&mutex->__word, __ATOMIC_RELAXED);
    if (word == WAITED_FOR) break;
    if (word == FREE && take(mutex)) return 0;
    __builtin_ia32_pause();
  }
  while (__atomic_exchange_n(&mutex->__word, WAITED_FOR, __ATOMIC_ACQUIRE) != FREE) {
    const int error = futex_wait(&mutex->__word, WAITED_FOR, shared, clock, deadline);
    if (error == ETIMEDOUT || error == EINVAL) return error;
  }
  return 0;
}

/* If the caller owns the mutex, returns the result of locking it once more: 0 or EAGAIN if the
 * mutex is recursive, otherwise `error`. Returns -1 if the caller does not own the mutex. */
static int take_again(pthread_mutex_t* mutex, int error) {
  if (!is_mine(mutex)) return -1;
  if ((mutex->__kind & ~KIND_SHARED) != PTHREAD_MUTEX_RECURSIVE) return error;
  if (mutex->__count == UINT32_MAX) return EAGAIN;
  mutex->__count++;
  return 0;
}

static int lock(pthread_mutex_t* mutex, clockid_t clock, const struct timespec* deadline) {
  if (!has_owner(mutex)) return take(mutex) ? 0 : wait_for(mutex, clock, deadline);
  const int again = take_again(mutex, EDEADLK);
  if (again >= 0) return again;
  const int error = take(mutex) ? 0 : wait_for(mutex, clock, deadline);
  if (error == 0) __atomic_store_n(&mutex->__owner, me(mutex), __ATOMIC_RELAXED);
  return error;
}

int pthread_mutex_lock(pthread_mutex_t* mutex) {
  if (mutex->__kind == PTHREAD_MUTEX_NORMAL && take(mutex)) return 0;
  return lock(mutex, CLOCK_MONOTONIC, NULL);
}
int pthread_mutex_timedlock(pthread_mutex_t* restrict mutex,
                            const struct timespec* restrict deadline) {
  return lock(mutex, CLOCK_REALTIME, deadline);
}
int pthread_mutex_clocklock(pthread_mutex_t* restrict mutex, clockid_t clock,
                            const struct timespec* restrict deadline) {
  if (!is_wait_clock(clock)) return EINVAL;
  return lock(mutex, clock, deadline);
}

int pthread_mutex_trylock(pthread_mutex_t* mutex) {
  if (!has_owner(mutex)) return take(mutex) ? 0 : EBUSY;
  const int again = take_again(mutex, EBUSY);
  if (again >= 0) return again;
  if (!take(mutex)) return EBUSY;
  __atomic_store_n(&mutex->__owner, me(mutex), __ATOMIC_RELAXED);
  return 0;
}

int pthread_mutex_unlock(pthread_mutex_t* mutex) {
  const bool shared = mutex->__kind & KIND_SHARED;
  if (has_owner(mutex)) {
    if (!is_mine(mutex)) return EPERM;
    if (mutex->__count > 0) {
      mutex->__count--;
      return 0;
    }
    __atomic_store_n(&mutex->__owner, 0, __ATOMIC_RELAXED);
  }
  if (__atomic_exchange_n(&mutex->__word, FREE, __ATOMIC_RELEASE) == WAITED_FOR)
    futex_wake(&mutex->__word, 1, shared);
  return 0;
}

int pthread_mutex_init(pthread_mutex_t* restrict mutex,
                       const pthread_mutexattr_t* restrict attributes) {
  *mutex = (pthread_mutex_t){.__kind = attributes != NULL ? attributes->__kind : 0};
  return 0;
}
int pthread_mutex_destroy(pthread_mutex_t* mutex) {
  return __atomic_load_n(&mutex->__word, __ATOMIC_RELAXED) == FREE ? 0 : EBUSY;
}

/* For cond.c: returns EPERM if the mutex stores its owner and the caller does not own it. */
int __stele_mutex_check(const pthread_mutex_t* mutex) {
  return has_owner(mutex) && !is_mine(mutex) ? EPERM : 0;
}

/* --- Attributes. There are no priority protocols and no robust mutexes. */

int pthread_mutexattr_init(pthread_mutexattr_t* attributes) {
  attributes->__kind = PTHREAD_MUTEX_DEFAULT;
  return 0;
}
int pthread_mutexattr_destroy(pthread_mutexattr_t* attributes) {
  (void)attributes;
  return 0;
}
int pthread_mutexattr_gettype(const pthread_mutexattr_t* restrict attributes, int* restrict type) {
  *type = (int)(attributes->__kind & ~KIND_SHARED);
  return 0;
}
int pthread_mutexattr_settype(pthread_mutexattr_t* attributes, int type) {
  if (type < PTHREAD_MUTEX_NORMAL || type > PTHREAD_MUTEX_ERRORCHECK) return EINVAL;
  attributes->__kind = (attributes->__kind & KIND_SHARED) | (unsigned)type;
  return 0;
}
int pthread_mutexattr_getprotocol(const pthread_mutexattr_t* restrict attributes,
                                  int* restrict protocol) {
  (void)attributes;
  *protocol = PTHREAD_PRIO_NONE;
  return 0;
}
int pthread_mutexattr_setprotocol(pthread_mutexattr_t* attributes, int protocol) {
  (void)attributes;
  if (protocol == PTHREAD_PRIO_NONE) return 0;
  return protocol == PTHREAD_PRIO_INHERIT || protocol == PTHREAD_PRIO_PROTECT ? ENOTSUP : EINVAL;
}
int pthread_mutexattr_getrobust(const pthread_mutexattr_t* restrict attributes,
                                int* restrict robust) {
  (void)attributes;
  *robust = PTHREAD_MUTEX_STALLED;
  return 0;
}
int pthread_mutexattr_setrobust(pthread_mutexattr_t* attributes, int robust) {
  (void)attributes;
  if (robust == PTHREAD_MUTEX_STALLED) return 0;
  return robust == PTHREAD_MUTEX_ROBUST ? ENOTSUP : EINVAL;
}
