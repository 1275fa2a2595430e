/* Semaphores. */
#ifndef _SEMAPHORE_H
#define _SEMAPHORE_H
#include <sys/cdefs.h>
#include <sys/types.h>
#include <time.h>

typedef struct {
  unsigned long __state; /* low half: the value; high half: the number of waiters */
  unsigned __kind;       /* 0x80: shared by processes */
  unsigned __padding;
} sem_t;

#define SEM_FAILED ((sem_t*)0)
#define SEM_VALUE_MAX 0x7fffffff

__BEGIN_DECLS
int sem_init(sem_t*, int, unsigned);
int sem_destroy(sem_t*);
int sem_wait(sem_t*);
int sem_trywait(sem_t*);
int sem_timedwait(sem_t* __restrict, const struct timespec* __restrict);
int sem_clockwait(sem_t* __restrict, clockid_t, const struct timespec* __restrict);
int sem_post(sem_t*);
int sem_getvalue(sem_t* __restrict, int* __restrict);
__END_DECLS
#endif
