/* Spin locks. A thread that has spun for long yields its CPU, because the lock's holder may wait
 * for a CPU. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>

enum { SPINS = 200 };

int pthread_spin_init(pthread_spinlock_t* lock, int shared) {
  if (shared != PTHREAD_PROCESS_PRIVATE && shared != PTHREAD_PROCESS_SHARED) return EINVAL;
  *lock = 0;
  return 0;
}
int pthread_spin_destroy(pthread_spinlock_t* lock) {
  (void)lock;
  return 0;
}
int pthread_spin_trylock(pthread_spinlock_t* lock) {
  return __atomic_exchange_n(lock, 1, __ATOMIC_ACQUIRE) == 0 ? 0 : EBUSY;
}
int pthread_spin_lock(pthread_spinlock_t* lock) {
  for (int spins = 0; pthread_spin_trylock(lock) != 0;) {
    while (*lock != 0) {
      __builtin_ia32_pause();
      if (++spins % SPINS == 0) sched_yield();
    }
  }
  return 0;
}
int pthread_spin_unlock(pthread_spinlock_t* lock) {
  __atomic_store_n(lock, 0, __ATOMIC_RELEASE);
  return 0;
}
