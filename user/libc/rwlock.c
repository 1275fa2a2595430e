/* Locks for many readers or one writer.
 *
 * One word holds the whole state: the number of readers (or WRITTEN), a bit that is set while
 * readers wait, and a bit that is set while writers wait. The unlock that makes the lock free
 * clears the word. If readers waited, this unlock wakes all waiters; otherwise it wakes one writer.
 * A writer that has waited sets the writers' bit again when it takes the lock, because other
 * writers may still wait. pthread_rwlock_unlock does not access the lock after it has cleared the
 * word. Readers do not wait for waiting writers, so that a thread may lock for reading twice; a
 * steady stream of readers can starve writers. musl has no pthread_rwlock_clock…lock, and does not
 * refuse to unlock a free lock.
 */
#include <errno.h>
#include <pthread.h>

#include "futex.h"

#define READERS_WAIT 0x80000000u
#define WRITERS_WAIT 0x40000000u
#define COUNT 0x3fffffffu
#define WRITTEN COUNT

static unsigned load(const pthread_rwlock_t* lock) {
  return __atomic_load_n(&lock->__word, __ATOMIC_RELAXED);
}
static bool change(pthread_rwlock_t* lock, unsigned from, unsigned to) {
  return __atomic_compare_exchange_n(&lock->__word, &from, to, 0, __ATOMIC_ACQUIRE,
                                     __ATOMIC_RELAXED);
}

/* If the lock's word is still `word`, sets `flag` in it and waits until the word changes. Returns
 * 0, ETIMEDOUT or EINVAL. */
static int wait(pthread_rwlock_t* lock, unsigned word, unsigned flag, clockid_t clock,
                const struct timespec* deadline) {
  const unsigned next = word | flag;
  if (next != word && !change(lock, word, next)) return 0;
  const int error = futex_wait(&lock->__word, next, lock->__kind & KIND_SHARED, clock, deadline);
  return error == ETIMEDOUT || error == EINVAL ? error : 0;
}

static int read_lock(pthread_rwlock_t* lock, clockid_t clock, const struct timespec* deadline) {
  for (;;) {
    const unsigned word = load(lock);
    if ((word & COUNT) == WRITTEN) {
      const int error = wait(lock, word, READERS_WAIT, clock, deadline);
      if (error != 0) return error;
    } else if ((word & COUNT) == WRITTEN - 1) {
      return EAGAIN;
    } else if (change(lock, word, word + 1)) {
      return 0;
    }
  }
}

static int write_lock(pthread_rwlock_t* lock, clockid_t clock, const struct timespec* deadline) {
  unsigned others = 0;
  for (;;) {
    const unsigned word = load(lock);
    if ((word & COUNT) == 0) {
      if (change(lock, word, word | WRITTEN | others)) return 0;
      continue;
    }
    const int error = wait(lock, word, WRITERS_WAIT, clock, deadline);
    if (error != 0) return error;
    others = WRITERS_WAIT;
  }
}

int pthread_rwlock_rdlock(pthread_rwlock_t* lock) {
  return read_lock(lock, CLOCK_MONOTONIC, NULL);
}
int pthread_rwlock_timedrdlock(pthread_rwlock_t* restrict lock,
                               const struct timespec* restrict deadline) {
  return read_lock(lock, CLOCK_REALTIME, deadline);
}
int pthread_rwlock_clockrdlock(pthread_rwlock_t* restrict lock, clockid_t clock,
                               const struct timespec* restrict deadline) {
  if (!is_wait_clock(clock)) return EINVAL;
  return read_lock(lock, clock, deadline);
}
int pthread_rwlock_tryrdlock(pthread_rwlock_t* lock) {
  for (;;) {
    const unsigned word = load(lock);
    if ((word & COUNT) == WRITTEN) return EBUSY;
    if ((word & COUNT) == WRITTEN - 1) return EAGAIN;
    if (change(lock, word, word + 1)) return 0;
  }
}

int pthread_rwlock_wrlock(pthread_rwlock_t* lock) {
  return write_lock(lock, CLOCK_MONOTONIC, NULL);
}
int pthread_rwlock_timedwrlock(pthread_rwlock_t* restrict lock,
                               const struct timespec* restrict deadline) {
  return write_lock(lock, CLOCK_REALTIME, deadline);
}
int pthread_rwlock_clockwrlock(pthread_rwlock_t* restrict lock, clockid_t clock,
                               const struct timespec* restrict deadline) {
  if (!is_wait_clock(clock)) return EINVAL;
  return write_lock(lock, clock, deadline);
}
int pthread_rwlock_trywrlock(pthread_rwlock_t* lock) {
  return change(lock, 0, WRITTEN) ? 0 : EBUSY;
}

int pthread_rwlock_unlock(pthread_rwlock_t* lock) {
  const bool shared = lock->__kind & KIND_SHARED;
  unsigned word = load(lock), next;
  do {
    const unsigned count = word & COUNT;
    if (count == 0) return EPERM;
    next = count == WRITTEN || count == 1 ? 0 : word - 1;
  } while (!__atomic_compare_exchange_n(&lock->__word, &word, next, 0, __ATOMIC_RELEASE,
                                        __ATOMIC_RELAXED));
  if (next != 0) return 0;
  if (word & READERS_WAIT)
    futex_wake(&lock->__word, EVERYBODY, shared);
  else if (word & WRITERS_WAIT)
    futex_wake(&lock->__word, 1, shared);
  return 0;
}

int pthread_rwlock_init(pthread_rwlock_t* restrict lock,
                        const pthread_rwlockattr_t* restrict attributes) {
  *lock = (pthread_rwlock_t){.__kind = attributes != NULL ? attributes->__kind : 0};
  return 0;
}
int pthread_rwlock_destroy(pthread_rwlock_t* lock) {
  return load(lock) == 0 ? 0 : EBUSY;
}
int pthread_rwlockattr_init(pthread_rwlockattr_t* attributes) {
  attributes->__kind = 0;
  return 0;
}
int pthread_rwlockattr_destroy(pthread_rwlockattr_t* attributes) {
  (void)attributes;
  return 0;
}
