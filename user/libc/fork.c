/* fork of a process that may have threads.
 *
 * The child has only the calling thread. The other threads do not exist in the child; they are
 * called lost threads. fork takes the library's locks on data that the child needs, so that these
 * data are consistent in the child. If a lost thread held another lock, the child frees this lock.
 * This includes the locks of stdio streams. Threads that the child creates reuse the stacks of the
 * lost threads.
 */
#include <envlock.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <reent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "start.h"
#include "streams.h"
#include "syscall.h"
#include "thread.h"

/* These symbols are weak: they are NULL in a program that does not use the data that the lock
 * guards. */
extern void __tz_lock(void) __attribute__((weak));
extern void __tz_unlock(void) __attribute__((weak));
extern void __env_lock(struct _reent*) __attribute__((weak));
extern void __env_unlock(struct _reent*) __attribute__((weak));
extern void __sfp_lock_acquire(void) __attribute__((weak));
extern void __sfp_lock_release(void) __attribute__((weak));
extern void __stele_atexit_lock(void) __attribute__((weak));
extern void __stele_atexit_unlock(void) __attribute__((weak));
extern void __malloc_lock(struct _reent*) __attribute__((weak));
extern void __malloc_unlock(struct _reent*) __attribute__((weak));

/* The linker defines these symbols. They are the bounds of the ELF section that contains all locks
 * that __LOCK_INIT defines. */
extern _LOCK_T __start_stele_locks[], __stop_stele_locks[];

/* Takes the locks in the order in which the library nests them. */
static void lock_all(void) {
  if (__tz_lock) __tz_lock();
  if (__env_lock) __env_lock(_REENT);
  if (__stele_atexit_lock) __stele_atexit_lock();
  if (__sfp_lock_acquire) __sfp_lock_acquire();
  __stele_lock(&__stele_threads_lock);
  if (__malloc_lock) __malloc_lock(_REENT);
}
static void unlock_all(void) {
  if (__malloc_unlock) __malloc_unlock(_REENT);
  __stele_unlock(&__stele_threads_lock);
  if (__sfp_lock_release) __sfp_lock_release();
  if (__stele_atexit_unlock) __stele_atexit_unlock();
  if (__env_unlock) __env_unlock(_REENT);
  if (__tz_unlock) __tz_unlock();
}

static void free_unless_mine(_LOCK_T* lock) {
  if ((lock->__word & 0x7fffffff) == SELF(lock_id))
    lock->__word = SELF(lock_id); /* clears the bit for waiters, which were lost threads */
  else
    lock->__word = lock->__count = 0;
}

/* Called in the child, with the locks of lock_all() held. */
static void forget_others(void) {
  struct thread* self = thread_self();
  self->is_first = 1;
  self->id = 0;
  self->signal_lock = (_LOCK_T){0, 0};
  for (_LOCK_T* lock = __start_stele_locks; lock < __stop_stele_locks; lock++)
    free_unless_mine(lock);
  for (struct _glue* some = first_streams(); some != NULL; some = some->_next) {
    for (int i = 0; i < some->_niobs; i++) free_unless_mine(&some->_iobs[i]._lock);
  }
  for (struct thread *thread = self->next, *next; thread != self; thread = next) {
    next = thread->next;
    thread->id = 0;
    thread->state = THREAD_DETACHED;
    __stele_stack_put(thread);
  }
  __stele_stacks_after_fork();
  __stele_threads = self->next = self->previous = self;
  __stele_thread_count = 1;
}

int __stele_fork(void) {
  if (__libc_single_threaded) {
    const pid_t child = (pid_t)SYSCALL(fork);
    if (child == 0) SELF(id) = 0;
    return child;
  }
  const uint64_t all = ~(uint64_t)0;
  uint64_t before;
  stele_call(ABI_SYS_sigprocmask, SIG_SETMASK, (long)&all, (long)&before, 0, 0, 0);
  lock_all();
  const pid_t child = (pid_t)SYSCALL(fork);
  if (child == 0) forget_others();
  unlock_all();
  if (child == 0) __libc_single_threaded = 1;
  stele_call(ABI_SYS_sigprocmask, SIG_SETMASK, (long)&before, 0, 0, 0, 0);
  return child;
}

/* --- pthread_atfork: the program's functions to call before and after a fork. */

static struct handlers {
  struct handlers *next, *previous;
  void (*prepare)(void);
  void (*parent)(void);
  void (*child)(void);
} * first, *last;
__LOCK_INIT(static, handlers_lock);

int pthread_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void)) {
  struct handlers* handlers = malloc(sizeof *handlers);
  if (handlers == NULL) return ENOMEM;
  __stele_lock(&handlers_lock);
  *handlers =
      (struct handlers){.previous = last, .prepare = prepare, .parent = parent, .child = child};
  if (last != NULL)
    last->next = handlers;
  else
    first = handlers;
  last = handlers;
  __stele_unlock(&handlers_lock);
  return 0;
}

pid_t fork(void) {
  __stele_lock(&handlers_lock);
  for (struct handlers* handlers = last; handlers != NULL; handlers = handlers->previous) {
    if (handlers->prepare != NULL) handlers->prepare();
  }
  const pid_t child = __stele_fork();
  const int error = errno;
  for (struct handlers* handlers = first; handlers != NULL; handlers = handlers->next) {
    void (*const function)(void) = child == 0 ? handlers->child : handlers->parent;
    if (function != NULL) function();
  }
  __stele_unlock(&handlers_lock);
  errno = error;
  return child;
}
pid_t vfork(void) {
  return __stele_fork();
}
