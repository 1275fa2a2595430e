/* Locks of the C library's own data (sys/lock.h): streams, the heap, the environment and so on.
 *
 * A lock's word is 0 if the lock is free; otherwise it is the holder's lock_id, with bit WAITED_FOR
 * set while threads wait. Taking a free lock, and releasing a lock without waiters, needs no system
 * call (Drepper, "Futexes Are Tricky", 2011). All locks are recursive, even those that newlib never
 * nests. So a signal handler that interrupts a function of the library may call the library without
 * a deadlock. While __libc_single_threaded is set, __stele_lock and __stele_unlock use plain loads
 * and stores. The word is still written, so that the lock stays valid if its holder creates a
 * second thread.
 */
#include <sys/lock.h>

#include "futex.h"
#include "thread.h"

char __libc_single_threaded = 1;

enum { SPINS = 64 };
#define WAITED_FOR 0x80000000u

__attribute__((noinline)) static void lock_slowly(_LOCK_T* lock, unsigned me) {
  for (int i = 0; i < SPINS; i++) {
    unsigned word = __atomic_load_n(&lock->__word, __ATOMIC_RELAXED);
    if (word & WAITED_FOR) break;
    if (word == 0 && __atomic_compare_exchange_n(&lock->__word, &word, me, 0, __ATOMIC_ACQUIRE,
                                                 __ATOMIC_RELAXED))
      return;
    __builtin_ia32_pause();
  }
  for (;;) {
    unsigned word = __atomic_load_n(&lock->__word, __ATOMIC_RELAXED);
    /* A thread that has waited takes the lock with the bit set: other threads may still wait. */
    const unsigned next = (word == 0 ? me : word) | WAITED_FOR;
    if (next != word && !__atomic_compare_exchange_n(&lock->__word, &word, next, 0,
                                                     __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
      continue;
    if (word == 0) return;
    futex_wait(&lock->__word, next, false, CLOCK_MONOTONIC, NULL);
  }
}

void __stele_lock(_LOCK_T* lock) {
  const unsigned me = SELF(lock_id);
  unsigned word = __atomic_load_n(&lock->__word, __ATOMIC_RELAXED);
  if (word == 0) {
    if (__libc_single_threaded) {
      __atomic_store_n(&lock->__word, me, __ATOMIC_RELAXED);
      return;
    }
    if (__atomic_compare_exchange_n(&lock->__word, &word, me, 0, __ATOMIC_ACQUIRE,
                                    __ATOMIC_RELAXED))
      return;
  }
  if ((word & ~WAITED_FOR) == me)
    lock->__count++;
  else
    lock_slowly(lock, me);
}

int __stele_trylock(_LOCK_T* lock) {
  const unsigned me = SELF(lock_id);
  unsigned word = 0;
  if (__atomic_compare_exchange_n(&lock->__word, &word, me, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
    return 1;
  if ((word & ~WAITED_FOR) != me) return 0;
  lock->__count++;
  return 1;
}

void __stele_unlock(_LOCK_T* lock) {
  if (lock->__count > 0) {
    lock->__count--;
  } else if (__libc_single_threaded) {
    __atomic_store_n(&lock->__word, 0, __ATOMIC_RELAXED);
  } else if (__atomic_exchange_n(&lock->__word, 0, __ATOMIC_RELEASE) & WAITED_FOR) {
    futex_wake(&lock->__word, 1, false);
  }
}
