/* Locks of the C library's own data: streams, the heap, the environment and so on. Replaces
 * newlib's header. newlib's lock is a pointer to memory that must be allocated. This lock consists
 * of two words and needs no allocation. All locks are recursive (user/libc/lock.c). */
#ifndef __SYS_LOCK_H__
#define __SYS_LOCK_H__

typedef struct {
  unsigned __word;  /* 0: free; otherwise the holder's lock_id, and a bit if threads wait */
  unsigned __count; /* further locks by the holder */
} _LOCK_T;
typedef _LOCK_T _LOCK_RECURSIVE_T;

#ifdef __cplusplus
extern "C" {
#endif
void __stele_lock(_LOCK_T* __lock);
int __stele_trylock(_LOCK_T* __lock); /* returns 1 if the caller has the lock now, otherwise 0 */
void __stele_unlock(_LOCK_T* __lock);
#ifdef __cplusplus
}
#endif

/* All locks are in the linker section stele_locks, where the child of a fork finds them
 * (user/libc/fork.c). */
#define __LOCK_INIT(class, lock) class _LOCK_T lock __attribute__((section("stele_locks"))) = {0, 0}
#define __LOCK_INIT_RECURSIVE(class, lock) __LOCK_INIT(class, lock)
#define __lock_init(lock) ((void)((lock).__word = (lock).__count = 0))
#define __lock_init_recursive(lock) __lock_init(lock)
#define __lock_close(lock) ((void)0)
#define __lock_close_recursive(lock) ((void)0)
#define __lock_acquire(lock) __stele_lock(&(lock))
#define __lock_acquire_recursive(lock) __stele_lock(&(lock))
#define __lock_try_acquire(lock) __stele_trylock(&(lock))
#define __lock_try_acquire_recursive(lock) __stele_trylock(&(lock))
#define __lock_release(lock) __stele_unlock(&(lock))
#define __lock_release_recursive(lock) __stele_unlock(&(lock))

#endif
