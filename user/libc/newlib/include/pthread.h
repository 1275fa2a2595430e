/* Threads. Replaces newlib's header. docs/posix.md lists the functions of POSIX that are
 * missing. */
#ifndef _PTHREAD_H
#define _PTHREAD_H
#include <sched.h>
#include <sys/_sigset.h>
#include <sys/cdefs.h>
#include <sys/features.h>
#include <sys/types.h>
#include <time.h>

#define PTHREAD_CREATE_JOINABLE 0
#define PTHREAD_CREATE_DETACHED 1
#define PTHREAD_INHERIT_SCHED 0
#define PTHREAD_EXPLICIT_SCHED 1
#define PTHREAD_SCOPE_SYSTEM 0
#define PTHREAD_SCOPE_PROCESS 1 /* refused: ENOTSUP */
#define PTHREAD_PROCESS_PRIVATE 0
#define PTHREAD_PROCESS_SHARED 1
#define PTHREAD_MUTEX_NORMAL 0
#define PTHREAD_MUTEX_RECURSIVE 1
#define PTHREAD_MUTEX_ERRORCHECK 2
#define PTHREAD_MUTEX_DEFAULT PTHREAD_MUTEX_NORMAL
#define PTHREAD_MUTEX_STALLED 0
#define PTHREAD_MUTEX_ROBUST 1 /* refused: ENOTSUP */
#define PTHREAD_PRIO_NONE 0
#define PTHREAD_PRIO_INHERIT 1 /* refused: ENOTSUP */
#define PTHREAD_PRIO_PROTECT 2 /* refused: ENOTSUP */
#define PTHREAD_CANCEL_ENABLE 0
#define PTHREAD_CANCEL_DISABLE 1
#define PTHREAD_CANCEL_DEFERRED 0
#define PTHREAD_CANCEL_ASYNCHRONOUS 1
#define PTHREAD_CANCELED ((void*)-1)
#define PTHREAD_BARRIER_SERIAL_THREAD (-1)

#define PTHREAD_ONCE_INIT 0
#define PTHREAD_MUTEX_INITIALIZER \
  { 0, PTHREAD_MUTEX_NORMAL, 0, 0, 0 }
#define PTHREAD_COND_INITIALIZER \
  { 0, 0, 0, 0, 0, 0 }
#define PTHREAD_RWLOCK_INITIALIZER \
  { 0, 0 }
#if __GNU_VISIBLE
#define PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP \
  { 0, PTHREAD_MUTEX_RECURSIVE, 0, 0, 0 }
#define PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP \
  { 0, PTHREAD_MUTEX_ERRORCHECK, 0, 0, 0 }
#endif

#ifndef _SIGSET_T_DECLARED
#define _SIGSET_T_DECLARED
typedef __sigset_t sigset_t;
#endif

struct _pthread_cleanup {
  void (*__function)(void*);
  void* __argument;
  struct _pthread_cleanup* __next;
};

/* pthread_cleanup_push opens a block, and pthread_cleanup_pop closes it. */
#define pthread_cleanup_push(function, argument)       \
  do {                                                 \
    struct _pthread_cleanup __pthread_cleanup_handler; \
  _pthread_cleanup_push(&__pthread_cleanup_handler, (function), (argument))
#define pthread_cleanup_pop(execute)                           \
  _pthread_cleanup_pop(&__pthread_cleanup_handler, (execute)); \
  }                                                            \
  while (0)

__BEGIN_DECLS
int pthread_create(pthread_t* __restrict, const pthread_attr_t* __restrict, void* (*)(void*),
                   void* __restrict);
void pthread_exit(void*) __dead2;
int pthread_join(pthread_t, void**);
int pthread_detach(pthread_t);
pthread_t pthread_self(void) __attribute__((__const__));
int pthread_equal(pthread_t, pthread_t) __attribute__((__const__));
int pthread_getcpuclockid(pthread_t, clockid_t*);
int pthread_atfork(void (*)(void), void (*)(void), void (*)(void));
int pthread_once(pthread_once_t*, void (*)(void));

int pthread_cancel(pthread_t);
int pthread_setcancelstate(int, int*);
int pthread_setcanceltype(int, int*);
void pthread_testcancel(void);
void _pthread_cleanup_push(struct _pthread_cleanup*, void (*)(void*), void*);
void _pthread_cleanup_pop(struct _pthread_cleanup*, int);

int pthread_key_create(pthread_key_t*, void (*)(void*));
int pthread_key_delete(pthread_key_t);
void* pthread_getspecific(pthread_key_t);
int pthread_setspecific(pthread_key_t, const void*);

int pthread_attr_init(pthread_attr_t*);
int pthread_attr_destroy(pthread_attr_t*);
int pthread_attr_getdetachstate(const pthread_attr_t*, int*);
int pthread_attr_setdetachstate(pthread_attr_t*, int);
int pthread_attr_getguardsize(const pthread_attr_t* __restrict, size_t* __restrict);
int pthread_attr_setguardsize(pthread_attr_t*, size_t);
int pthread_attr_getinheritsched(const pthread_attr_t* __restrict, int* __restrict);
int pthread_attr_setinheritsched(pthread_attr_t*, int);
int pthread_attr_getschedparam(const pthread_attr_t* __restrict, struct sched_param* __restrict);
int pthread_attr_setschedparam(pthread_attr_t* __restrict, const struct sched_param* __restrict);
int pthread_attr_getschedpolicy(const pthread_attr_t* __restrict, int* __restrict);
int pthread_attr_setschedpolicy(pthread_attr_t*, int);
int pthread_attr_getscope(const pthread_attr_t* __restrict, int* __restrict);
int pthread_attr_setscope(pthread_attr_t*, int);
int pthread_attr_getstack(const pthread_attr_t* __restrict, void** __restrict, size_t* __restrict);
int pthread_attr_setstack(pthread_attr_t*, void*, size_t);
int pthread_attr_getstacksize(const pthread_attr_t* __restrict, size_t* __restrict);
int pthread_attr_setstacksize(pthread_attr_t*, size_t);

int pthread_getschedparam(pthread_t, int* __restrict, struct sched_param* __restrict);
int pthread_setschedparam(pthread_t, int, const struct sched_param*);
int pthread_setschedprio(pthread_t, int);
int pthread_getconcurrency(void);
int pthread_setconcurrency(int);

int pthread_mutex_init(pthread_mutex_t* __restrict, const pthread_mutexattr_t* __restrict);
int pthread_mutex_destroy(pthread_mutex_t*);
int pthread_mutex_lock(pthread_mutex_t*);
int pthread_mutex_trylock(pthread_mutex_t*);
int pthread_mutex_timedlock(pthread_mutex_t* __restrict, const struct timespec* __restrict);
int pthread_mutex_unlock(pthread_mutex_t*);
int pthread_mutexattr_init(pthread_mutexattr_t*);
int pthread_mutexattr_destroy(pthread_mutexattr_t*);
int pthread_mutexattr_getprotocol(const pthread_mutexattr_t* __restrict, int* __restrict);
int pthread_mutexattr_setprotocol(pthread_mutexattr_t*, int);
int pthread_mutexattr_getpshared(const pthread_mutexattr_t* __restrict, int* __restrict);
int pthread_mutexattr_setpshared(pthread_mutexattr_t*, int);
int pthread_mutexattr_getrobust(const pthread_mutexattr_t* __restrict, int* __restrict);
int pthread_mutexattr_setrobust(pthread_mutexattr_t*, int);
int pthread_mutexattr_gettype(const pthread_mutexattr_t* __restrict, int* __restrict);
int pthread_mutexattr_settype(pthread_mutexattr_t*, int);

int pthread_cond_init(pthread_cond_t* __restrict, const pthread_condattr_t* __restrict);
int pthread_cond_destroy(pthread_cond_t*);
int pthread_cond_wait(pthread_cond_t* __restrict, pthread_mutex_t* __restrict);
int pthread_cond_timedwait(pthread_cond_t* __restrict, pthread_mutex_t* __restrict,
                           const struct timespec* __restrict);
int pthread_cond_signal(pthread_cond_t*);
int pthread_cond_broadcast(pthread_cond_t*);
int pthread_condattr_init(pthread_condattr_t*);
int pthread_condattr_destroy(pthread_condattr_t*);
int pthread_condattr_getclock(const pthread_condattr_t* __restrict, clockid_t* __restrict);
int pthread_condattr_setclock(pthread_condattr_t*, clockid_t);
int pthread_condattr_getpshared(const pthread_condattr_t* __restrict, int* __restrict);
int pthread_condattr_setpshared(pthread_condattr_t*, int);

int pthread_rwlock_init(pthread_rwlock_t* __restrict, const pthread_rwlockattr_t* __restrict);
int pthread_rwlock_destroy(pthread_rwlock_t*);
int pthread_rwlock_rdlock(pthread_rwlock_t*);
int pthread_rwlock_tryrdlock(pthread_rwlock_t*);
int pthread_rwlock_timedrdlock(pthread_rwlock_t* __restrict, const struct timespec* __restrict);
int pthread_rwlock_wrlock(pthread_rwlock_t*);
int pthread_rwlock_trywrlock(pthread_rwlock_t*);
int pthread_rwlock_timedwrlock(pthread_rwlock_t* __restrict, const struct timespec* __restrict);
int pthread_rwlock_unlock(pthread_rwlock_t*);
int pthread_rwlockattr_init(pthread_rwlockattr_t*);
int pthread_rwlockattr_destroy(pthread_rwlockattr_t*);
int pthread_rwlockattr_getpshared(const pthread_rwlockattr_t* __restrict, int* __restrict);
int pthread_rwlockattr_setpshared(pthread_rwlockattr_t*, int);

int pthread_barrier_init(pthread_barrier_t* __restrict, const pthread_barrierattr_t* __restrict,
                         unsigned);
int pthread_barrier_destroy(pthread_barrier_t*);
int pthread_barrier_wait(pthread_barrier_t*);
int pthread_barrierattr_init(pthread_barrierattr_t*);
int pthread_barrierattr_destroy(pthread_barrierattr_t*);
int pthread_barrierattr_getpshared(const pthread_barrierattr_t* __restrict, int* __restrict);
int pthread_barrierattr_setpshared(pthread_barrierattr_t*, int);

int pthread_spin_init(pthread_spinlock_t*, int);
int pthread_spin_destroy(pthread_spinlock_t*);
int pthread_spin_lock(pthread_spinlock_t*);
int pthread_spin_trylock(pthread_spinlock_t*);
int pthread_spin_unlock(pthread_spinlock_t*);

/* The functions of POSIX.1-2024 whose caller chooses the clock of the deadline. */
int pthread_mutex_clocklock(pthread_mutex_t* __restrict, clockid_t,
                            const struct timespec* __restrict);
int pthread_cond_clockwait(pthread_cond_t* __restrict, pthread_mutex_t* __restrict, clockid_t,
                           const struct timespec* __restrict);
int pthread_rwlock_clockrdlock(pthread_rwlock_t* __restrict, clockid_t,
                               const struct timespec* __restrict);
int pthread_rwlock_clockwrlock(pthread_rwlock_t* __restrict, clockid_t,
                               const struct timespec* __restrict);

#if __GNU_VISIBLE
/* tryjoin returns EBUSY if the thread has not ended. timedjoin (CLOCK_REALTIME) and clockjoin
 * return ETIMEDOUT after the deadline. */
int pthread_tryjoin_np(pthread_t, void**);
int pthread_timedjoin_np(pthread_t, void**, const struct timespec*);
int pthread_clockjoin_np(pthread_t, void**, clockid_t, const struct timespec*);
int pthread_getattr_np(pthread_t, pthread_attr_t*);
int pthread_getname_np(pthread_t, char*, size_t);
int pthread_setname_np(pthread_t, const char*); /* at most 15 bytes; otherwise ERANGE */
int pthread_yield(void);
#endif
__END_DECLS
#endif
