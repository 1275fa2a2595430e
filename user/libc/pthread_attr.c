/* Attributes of threads. There is one scheduling policy (sched.c) and one contention scope
 * (PTHREAD_SCOPE_SYSTEM).
 */
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/resource.h>

#include "thread.h"

enum { PAGE = 4096, DEFAULT_STACK = 1024 * 1024, PROCESS_STACK = 8 * 1024 * 1024 };

int pthread_attr_init(pthread_attr_t* attributes) {
  *attributes = (pthread_attr_t){.__stack_size = DEFAULT_STACK, .__guard_size = PAGE};
  return 0;
}
int pthread_attr_destroy(pthread_attr_t* attributes) {
  (void)attributes;
  return 0;
}

int pthread_attr_getdetachstate(const pthread_attr_t* restrict attributes, int* restrict state) {
  *state = attributes->__detach_state;
  return 0;
}
int pthread_attr_setdetachstate(pthread_attr_t* attributes, int state) {
  if (state != PTHREAD_CREATE_JOINABLE && state != PTHREAD_CREATE_DETACHED) return EINVAL;
  attributes->__detach_state = state;
  return 0;
}

int pthread_attr_getguardsize(const pthread_attr_t* restrict attributes, size_t* restrict size) {
  *size = attributes->__guard_size;
  return 0;
}
int pthread_attr_setguardsize(pthread_attr_t* attributes, size_t size) {
  attributes->__guard_size = size;
  return 0;
}

int pthread_attr_getstack(const pthread_attr_t* restrict attributes, void** restrict stack,
                          size_t* restrict size) {
  *stack = attributes->__stack;
  *size = attributes->__stack_size;
  return 0;
}
int pthread_attr_setstack(pthread_attr_t* attributes, void* stack, size_t size) {
  if (size < PTHREAD_STACK_MIN || (uintptr_t)stack % 16 != 0 || size % 16 != 0) return EINVAL;
  attributes->__stack = stack;
  attributes->__stack_size = size;
  return 0;
}

int pthread_attr_getstacksize(const pthread_attr_t* restrict attributes, size_t* restrict size) {
  *size = attributes->__stack_size;
  return 0;
}
int pthread_attr_setstacksize(pthread_attr_t* attributes, size_t size) {
  if (size < PTHREAD_STACK_MIN) return EINVAL;
  attributes->__stack = NULL;
  attributes->__stack_size = size;
  return 0;
}

int pthread_attr_getinheritsched(const pthread_attr_t* restrict attributes, int* restrict inherit) {
  *inherit = attributes->__inherit;
  return 0;
}
int pthread_attr_setinheritsched(pthread_attr_t* attributes, int inherit) {
  if (inherit != PTHREAD_INHERIT_SCHED && inherit != PTHREAD_EXPLICIT_SCHED) return EINVAL;
  attributes->__inherit = inherit;
  return 0;
}

int pthread_attr_getschedparam(const pthread_attr_t* restrict attributes,
                               struct sched_param* restrict parameters) {
  *parameters = attributes->__parameters;
  return 0;
}
int pthread_attr_setschedparam(pthread_attr_t* restrict attributes,
                               const struct sched_param* restrict parameters) {
  if (parameters->sched_priority != 0) return ENOTSUP;
  attributes->__parameters = *parameters;
  return 0;
}

int pthread_attr_getschedpolicy(const pthread_attr_t* restrict attributes, int* restrict policy) {
  *policy = attributes->__policy;
  return 0;
}
int pthread_attr_setschedpolicy(pthread_attr_t* attributes, int policy) {
  if (policy != SCHED_OTHER) return policy == SCHED_FIFO || policy == SCHED_RR ? ENOTSUP : EINVAL;
  attributes->__policy = policy;
  return 0;
}

int pthread_attr_getscope(const pthread_attr_t* restrict attributes, int* restrict scope) {
  *scope = attributes->__scope;
  return 0;
}
int pthread_attr_setscope(pthread_attr_t* attributes, int scope) {
  if (scope != PTHREAD_SCOPE_SYSTEM) return scope == PTHREAD_SCOPE_PROCESS ? ENOTSUP : EINVAL;
  attributes->__scope = scope;
  return 0;
}

/* Returns the lowest address to which the stack of the process's first thread may grow. Sets
 * `*size` to the size that RLIMIT_STACK allows. The stack ends above the page that contains the
 * program's path (AT_EXECFN). */
static void* process_stack(size_t* size) {
  struct rlimit limit;
  *size = PROCESS_STACK;
  if (getrlimit(RLIMIT_STACK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
    *size = limit.rlim_cur;
  return (void*)(((getauxval(AT_EXECFN) | (PAGE - 1)) + 1) - *size);
}

int pthread_getattr_np(pthread_t which, pthread_attr_t* attributes) {
  const struct thread* thread = (const struct thread*)which;
  pthread_attr_init(attributes);
  attributes->__guard_size = thread->guard_size;
  if (thread->state == THREAD_DETACHED) attributes->__detach_state = PTHREAD_CREATE_DETACHED;
  if (thread->stack != NULL) {
    attributes->__stack = thread->stack;
    attributes->__stack_size = thread->stack_size;
    return 0;
  }
  attributes->__stack = process_stack(&attributes->__stack_size);
  return 0;
}
