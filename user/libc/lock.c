/* Locks of newlib (sys/lock.h): of streams, the heap, the environment and so on.
 *
 * A process has one thread, so nobody else can hold a lock and taking one never waits. Locks are
 * counted all the same: to release one that is not held is a fault of the library, which ends here.
 * A signal handler that interrupts the library and calls it takes a lock a second time, also one
 * that is not recursive. All streams share a lock, so a stream costs no memory more.
 */
#include <stdlib.h>
#include <sys/lock.h>

struct __lock {
  unsigned held; /* how often, by the one thread */
};

/* newlib's own. */
struct __lock __lock___sinit_recursive_mutex, __lock___sfp_recursive_mutex,
    __lock___atexit_recursive_mutex, __lock___at_quick_exit_mutex, __lock___malloc_recursive_mutex,
    __lock___env_recursive_mutex, __lock___tz_mutex, __lock___dd_hash_mutex,
    __lock___arc4random_mutex;

static struct __lock streams;

void __retarget_lock_init(_LOCK_T* lock) {
  *lock = &streams;
}
void __retarget_lock_init_recursive(_LOCK_T* lock) {
  *lock = &streams;
}
void __retarget_lock_close(_LOCK_T lock) {
  (void)lock;
}
void __retarget_lock_close_recursive(_LOCK_T lock) {
  (void)lock;
}

void __retarget_lock_acquire(_LOCK_T lock) {
  lock->held++;
}
void __retarget_lock_acquire_recursive(_LOCK_T lock) {
  lock->held++;
}

/* Not 0: it is taken. */
int __retarget_lock_try_acquire(_LOCK_T lock) {
  lock->held++;
  return 1;
}
int __retarget_lock_try_acquire_recursive(_LOCK_T lock) {
  lock->held++;
  return 1;
}

void __retarget_lock_release(_LOCK_T lock) {
  if (lock->held-- == 0) abort();
}
void __retarget_lock_release_recursive(_LOCK_T lock) {
  if (lock->held-- == 0) abort();
}
