/* Thread-specific values.
 *
 * From its start, each thread has an array with a value for every possible key, so that setting a
 * value allocates nothing. Deleting a key clears its value in all threads, so that the value is
 * NULL everywhere if the same key number is used again.
 */
#include <errno.h>
#include <limits.h>
#include <pthread.h>

#include "thread.h"

static struct key {
  int is_used;
  void (*destructor)(void*);
} keys[PTHREAD_KEYS_MAX];
__LOCK_INIT(static, lock); /* taken before __stele_threads_lock */

static void** values_of(struct thread* thread) {
  static void* first[PTHREAD_KEYS_MAX];
  return thread->values != NULL ? thread->values : (thread->values = first);
}

int pthread_key_create(pthread_key_t* key, void (*destructor)(void*)) {
  int error = EAGAIN;
  __stele_lock(&lock);
  for (unsigned i = 0; i < PTHREAD_KEYS_MAX && error != 0; i++) {
    if (keys[i].is_used) continue;
    keys[i] = (struct key){.is_used = 1, .destructor = destructor};
    *key = i;
    error = 0;
  }
  __stele_unlock(&lock);
  return error;
}

int pthread_key_delete(pthread_key_t key) {
  if (key >= PTHREAD_KEYS_MAX) return EINVAL;
  int error = EINVAL;
  __stele_lock(&lock);
  if (keys[key].is_used) {
    keys[key] = (struct key){.is_used = 0};
    values_of(thread_self())[key] = NULL;
    __stele_lock(&__stele_threads_lock);
    const struct thread* end = __stele_threads;
    for (struct thread* thread = __stele_threads; thread != NULL;
         thread = thread->next == end ? NULL : thread->next) {
      if (thread->values != NULL) __atomic_store_n(&thread->values[key], NULL, __ATOMIC_RELAXED);
    }
    __stele_unlock(&__stele_threads_lock);
    error = 0;
  }
  __stele_unlock(&lock);
  return error;
}

void* pthread_getspecific(pthread_key_t key) {
  return key < PTHREAD_KEYS_MAX && SELF(values) != NULL ? SELF(values)[key] : NULL;
}

int pthread_setspecific(pthread_key_t key, const void* value) {
  if (key >= PTHREAD_KEYS_MAX || !keys[key].is_used) return EINVAL;
  values_of(thread_self())[key] = (void*)value;
  return 0;
}

/* Calls the destructors at the end of a thread. A destructor may set values again, so the passes
 * are repeated, up to the limit of POSIX. */
void __stele_keys_end(struct thread* thread) {
  if (thread->values == NULL) return;
  int again = 1;
  for (int round = 0; round < PTHREAD_DESTRUCTOR_ITERATIONS && again; round++) {
    again = 0;
    for (unsigned i = 0; i < PTHREAD_KEYS_MAX; i++) {
      if (thread->values[i] == NULL) continue;
      __stele_lock(&lock);
      void* value = thread->values[i];
      void (*destructor)(void*) = keys[i].destructor;
      thread->values[i] = NULL;
      __stele_unlock(&lock);
      if (value == NULL || destructor == NULL) continue;
      again = 1;
      destructor(value);
    }
  }
}
