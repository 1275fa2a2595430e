/* Mutexes of all kinds. */
#include "threadtest.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_spinlock_t spin;
static void* try_it(void* which) {
  return (void*)(long)pthread_mutex_trylock(which);
}
static void* unlock_it(void* which) {
  return (void*)(long)pthread_mutex_unlock(which);
}
static void* lock_for_20_ms(void* which) {
  struct timespec soon = in_ms(CLOCK_REALTIME, 20);
  const int error = pthread_mutex_timedlock(which, &soon);
  EXPECT(is_over(CLOCK_REALTIME, &soon));
  return (void*)(long)error;
}
static void* lock_for_20_monotonic_ms(void* which) {
  struct timespec soon = in_ms(CLOCK_MONOTONIC, 20);
  const int error = pthread_mutex_clocklock(which, CLOCK_MONOTONIC, &soon);
  EXPECT(is_over(CLOCK_MONOTONIC, &soon));
  return (void*)(long)error;
}
static void* lock_until_no_time(void* which) {
  const struct timespec none = {.tv_sec = 1, .tv_nsec = 1000000000};
  return (void*)(long)pthread_mutex_timedlock(which, &none);
}
static long in_thread(void* (*function)(void*), void* which) {
  return (long)join(begin(function, which));
}

static pthread_mutex_t made(int type) {
  pthread_mutexattr_t attributes;
  pthread_mutex_t result;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_settype(&attributes, type);
  pthread_mutex_init(&result, &attributes);
  pthread_mutexattr_destroy(&attributes);
  return result;
}

/* The last user of the mutex destroys it and overwrites its memory right after the unlock. */
struct short_lived {
  pthread_mutex_t mutex;
  int users;
};
static void* use_short_lived(void* argument) {
  struct short_lived* object = argument;
  pthread_mutex_lock(&object->mutex);
  const int last = --object->users == 0;
  pthread_mutex_unlock(&object->mutex);
  if (last) {
    EXPECT(pthread_mutex_destroy(&object->mutex) == 0);
    memset(object, 0xff, sizeof *object);
    free(object);
  }
  return NULL;
}

void test_mutexes(void) {
  EXPECT(pthread_spin_init(&spin, PTHREAD_PROCESS_PRIVATE) == 0);
  EXPECT(pthread_spin_lock(&spin) == 0 && pthread_spin_trylock(&spin) == EBUSY &&
         pthread_spin_unlock(&spin) == 0 && pthread_spin_trylock(&spin) == 0 &&
         pthread_spin_unlock(&spin) == 0 && pthread_spin_destroy(&spin) == 0);

  EXPECT(pthread_mutex_lock(&mutex) == 0 && pthread_mutex_trylock(&mutex) == EBUSY);
  EXPECT(in_thread(try_it, &mutex) == EBUSY);
  EXPECT(in_thread(lock_for_20_ms, &mutex) == ETIMEDOUT);
  EXPECT(in_thread(lock_for_20_monotonic_ms, &mutex) == ETIMEDOUT);
  EXPECT(in_thread(lock_until_no_time, &mutex) == EINVAL);
  EXPECT(pthread_mutex_destroy(&mutex) == EBUSY);
  EXPECT(pthread_mutex_unlock(&mutex) == 0);
  /* A free mutex is taken even with an invalid deadline. */
  EXPECT(in_thread(lock_until_no_time, &mutex) == 0 && pthread_mutex_unlock(&mutex) == 0);

  pthread_mutex_t recursive = made(PTHREAD_MUTEX_RECURSIVE);
  EXPECT(pthread_mutex_lock(&recursive) == 0 && pthread_mutex_lock(&recursive) == 0 &&
         pthread_mutex_trylock(&recursive) == 0);
  EXPECT(in_thread(try_it, &recursive) == EBUSY && in_thread(unlock_it, &recursive) == EPERM);
  EXPECT(pthread_mutex_unlock(&recursive) == 0 && pthread_mutex_unlock(&recursive) == 0);
  EXPECT(in_thread(try_it, &recursive) == EBUSY);
  EXPECT(pthread_mutex_unlock(&recursive) == 0 && pthread_mutex_unlock(&recursive) == EPERM);
  EXPECT(pthread_mutex_destroy(&recursive) == 0);

  pthread_mutex_t checked = made(PTHREAD_MUTEX_ERRORCHECK);
  EXPECT(pthread_mutex_unlock(&checked) == EPERM);
  EXPECT(pthread_mutex_lock(&checked) == 0 && pthread_mutex_lock(&checked) == EDEADLK &&
         pthread_mutex_trylock(&checked) == EBUSY);
  struct timespec now = in_ms(CLOCK_REALTIME, 0);
  EXPECT(pthread_mutex_timedlock(&checked, &now) == EDEADLK);
  EXPECT(in_thread(unlock_it, &checked) == EPERM);
  EXPECT(pthread_mutex_unlock(&checked) == 0);

  pthread_mutexattr_t attributes;
  int number = -1;
  pthread_mutexattr_init(&attributes);
  EXPECT(pthread_mutexattr_gettype(&attributes, &number) == 0 && number == PTHREAD_MUTEX_DEFAULT);
  EXPECT(pthread_mutexattr_settype(&attributes, 9) == EINVAL);
  EXPECT(pthread_mutexattr_getpshared(&attributes, &number) == 0 &&
         number == PTHREAD_PROCESS_PRIVATE &&
         pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED) == 0 &&
         pthread_mutexattr_getpshared(&attributes, &number) == 0 &&
         number == PTHREAD_PROCESS_SHARED &&
         pthread_mutexattr_setpshared(&attributes, 5) == EINVAL);
  EXPECT(pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST) == ENOTSUP &&
         pthread_mutexattr_getrobust(&attributes, &number) == 0 && number == PTHREAD_MUTEX_STALLED);
  EXPECT(pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT) == ENOTSUP &&
         pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_NONE) == 0);

  for (int i = 0; i < 300; i++) {
    struct short_lived* object = malloc(sizeof *object);
    pthread_mutex_init(&object->mutex, NULL);
    object->users = 3;
    pthread_t threads[3];
    for (int t = 0; t < 3; t++) threads[t] = begin(use_short_lived, object);
    for (int t = 0; t < 3; t++) join(threads[t]);
  }
}
