/* Types of <pthread.h>. In the place of newlib's, whose objects are handles. All zero is the
 * initial state of each; fields are the C library's own (user/libc). */
#ifndef _SYS__PTHREADTYPES_H_
#define _SYS__PTHREADTYPES_H_

#include <sys/sched.h>

typedef unsigned long pthread_t;
typedef unsigned pthread_key_t;
typedef int pthread_once_t;
typedef volatile unsigned pthread_spinlock_t;

typedef struct {
  void* __stack; /* its lowest address; NULL: the library's */
  unsigned long __stack_size, __guard_size;
  int __detach_state, __inherit, __policy, __scope;
  struct sched_param __parameters;
} pthread_attr_t;

typedef struct {
  unsigned __word;  /* 0 free, 1 held, 2 held and perhaps waited for */
  unsigned __kind;  /* PTHREAD_MUTEX_*, and 0x80: of several processes */
  unsigned __count; /* how often more than once */
  unsigned __padding;
  unsigned long __owner;
} pthread_mutex_t;
typedef struct {
  unsigned __kind;
} pthread_mutexattr_t;

typedef struct {
  unsigned __kind;     /* 1: CLOCK_MONOTONIC, 0x80: of several processes */
  unsigned __lock;     /* of the list */
  unsigned __sequence; /* shared: changes with each signal */
  unsigned __waiters;  /* shared: how many; the highest bit: somebody destroys it */
  void *__first, *__last;
} pthread_cond_t;
typedef struct {
  unsigned __kind;
} pthread_condattr_t;

typedef struct {
  unsigned __word; /* how many read, or all ones: one writes; two bits for those who wait */
  unsigned __kind; /* 0x80: of several processes */
} pthread_rwlock_t;
typedef struct {
  unsigned __kind;
} pthread_rwlockattr_t;

typedef struct {
  unsigned long __state; /* rounds, and how many have come to this one */
  unsigned __inside;     /* how many have come and not gone; the highest bit: it is destroyed */
  unsigned __limit, __kind, __padding;
} pthread_barrier_t;
typedef struct {
  unsigned __kind;
} pthread_barrierattr_t;

#endif
