/* Locks of the C library's own data: streams, the heap, the environment and so on. In the place of
 * newlib's header: a lock is two words where it is used, nothing that would have to be allocated.
 * All of them are recursive (user/libc/lock.c). */
#ifndef __SYS_LOCK_H__
#define __SYS_LOCK_H__

typedef struct {
  unsigned __word;  /* 0, or who holds it, and whether somebody waits */
  unsigned __count; /* how often more than once */
} _LOCK_T;
typedef _LOCK_T _LOCK_RECURSIVE_T;

#ifdef __cplusplus
extern "C" {
#endif
void __stele_lock(_LOCK_T* __lock);
int __stele_trylock(_LOCK_T* __lock); /* not 0: it is taken */
void __stele_unlock(_LOCK_T* __lock);
#ifdef __cplusplus
}
#endif

/* They lie together, so that the child of a fork finds them (user/libc/fork.c). */
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
