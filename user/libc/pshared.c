/* The process-shared attribute: it says whether several processes use the object. Mutexes,
 * conditions, reader-writer locks and barriers have this attribute. */
#include <errno.h>
#include <pthread.h>

#include "futex.h"

#define SHARED_ATTRIBUTE(object)                                                                   \
  int pthread_##object##attr_getpshared(const pthread_##object##attr_t* restrict attributes,       \
                                        int* restrict shared) {                                    \
    *shared = attributes->__kind & KIND_SHARED ? PTHREAD_PROCESS_SHARED : PTHREAD_PROCESS_PRIVATE; \
    return 0;                                                                                      \
  }                                                                                                \
  int pthread_##object##attr_setpshared(pthread_##object##attr_t* attributes, int shared) {        \
    if (shared != PTHREAD_PROCESS_SHARED && shared != PTHREAD_PROCESS_PRIVATE) return EINVAL;      \
    attributes->__kind = (attributes->__kind & ~KIND_SHARED) |                                     \
                         (shared == PTHREAD_PROCESS_SHARED ? KIND_SHARED : 0);                     \
    return 0;                                                                                      \
  }
SHARED_ATTRIBUTE(mutex)
SHARED_ATTRIBUTE(cond)
SHARED_ATTRIBUTE(rwlock)
SHARED_ATTRIBUTE(barrier)
