/* Types of <pthread.h>. Replaces newlib's header, in which these types are handles. A mutex,
 * condition, read-write lock or pthread_once_t that is all zero is initialized, with the default
 * attributes. The fields are internal to the C library (user/libc). */
#ifndef _SYS__PTHREADTYPES_H_
#define _SYS__PTHREADTYPES_H_

#include <sys/sched.h>

typedef unsigned long pthread_t;
typedef unsigned pthread_key_t;
typedef int pthread_once_t;
typedef volatile unsigned pthread_spinlock_t;

typedef struct {
  void* __stack; /* lowest address of the caller's stack; NULL: the library allocates one */
  unsigned long __stack_size, __guard_size;
  int __detach_state, __inherit, __policy, __scope;
  struct sched_param __parameters;
} pthread_attr_t;

typedef struct {
  unsigned __word;  /* 0: free; 1: held; 2: held, may have waiters */
  unsigned __kind;  /* PTHREAD_MUTEX_*, and 0x80: shared by processes */
  unsigned __count; /* if recursive: number of additional locks by the owner */
  unsigned __padding;
  unsigned long __owner; /* unused in a normal mutex (user/libc/mutex.c) */
} pthread_mutex_t;
typedef struct {
  unsigned __kind;
} pthread_mutexattr_t;

typedef struct {
  unsigned __kind;        /* 1: CLOCK_MONOTONIC, 0x80: shared by processes */
  unsigned __lock;        /* guards the list of waiters */
  unsigned __sequence;    /* if shared: number of signals that found waiters */
  unsigned __waiters;     /* if shared: number of waiters; the highest bit: being destroyed */
  void *__first, *__last; /* if not shared: the list of waiters */
} pthread_cond_t;
typedef struct {
  unsigned __kind;
} pthread_condattr_t;

typedef struct {
  unsigned __word; /* number of readers, or all ones for a writer; the two top bits: waiters */
  unsigned __kind; /* 0x80: shared by processes */
} pthread_rwlock_t;
typedef struct {
  unsigned __kind;
} pthread_rwlockattr_t;

typedef struct {
  unsigned long __state; /* high half: number of the round; low half: threads that have arrived */
  unsigned __inside;     /* threads in pthread_barrier_wait; the highest bit: being destroyed */
  unsigned __limit, __kind, __padding; /* __limit: arrivals that end a round */
} pthread_barrier_t;
typedef struct {
  unsigned __kind;
} pthread_barrierattr_t;

#endif
