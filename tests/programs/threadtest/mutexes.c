/* Mutexes of all kinds. */
#include "threadtest.h"

enum { THREADS = 8, TIMES = 2000 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_spinlock_t spin;
static long counter; /* guarded by the tested mutex */
static atomic_int inside;

static void count_inside(void) {
  EXPECT(atomic_fetch_add(&inside, 1) == 0);
  counter++;
  atomic_fetch_sub(&inside, 1);
}

static void* with_lock(void* which) {
  for (int i = 0; i < TIMES; i++) {
    EXPECT(pthread_mutex_lock(which) == 0);
    count_inside();
    EXPECT(pthread_mutex_unlock(which) == 0);
  }
  return NULL;
}
static void* with_trylock(void* which) {
  for (int i = 0; i < TIMES; i++) {
    int error;
    while ((error = pthread_mutex_trylock(which)) == EBUSY) sched_yield();
    EXPECT(error == 0);
    count_inside();
    EXPECT(pthread_mutex_unlock(which) == 0);
  }
  return NULL;
}
static void* with_timedlock(void* which) {
  for (int i = 0; i < TIMES; i++) {
    struct timespec later;
    int error;
    do {
      later = in_ms(CLOCK_REALTIME, i % 3);
      error = pthread_mutex_timedlock(which, &later);
    } while (error == ETIMEDOUT);
    EXPECT(error == 0);
    count_inside();
    EXPECT(pthread_mutex_unlock(which) == 0);
  }
  return NULL;
}
static void* with_spin(void* argument) {
  for (int i = 0; i < TIMES; i++) {
    if (i % 4 == 0) {
      while (pthread_spin_trylock(&spin) == EBUSY) sched_yield();
    } else {
      pthread_spin_lock(&spin);
    }
    count_inside();
    pthread_spin_unlock(&spin);
  }
  return argument;
}

static long count(void* (*const functions[3])(void*), void* which) {
  pthread_t threads[THREADS];
  counter = 0;
  for (int i = 0; i < THREADS; i++) threads[i] = begin(functions[i % 3], which);
  for (int i = 0; i < THREADS; i++) join(threads[i]);
  return counter;
}

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
  void* (*const all[])(void*) = {with_lock, with_trylock, with_timedlock};
  CHECK(count(all, &mutex) == THREADS * TIMES);
  pthread_mutex_t recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
  CHECK(count(all, &recursive) == THREADS * TIMES);
  pthread_mutex_t checked = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
  CHECK(count(all, &checked) == THREADS * TIMES);
  void* (*const spinning[])(void*) = {with_spin, with_spin, with_spin};
  CHECK(pthread_spin_init(&spin, PTHREAD_PROCESS_PRIVATE) == 0);
  CHECK(count(spinning, NULL) == THREADS * TIMES);
  CHECK(pthread_spin_lock(&spin) == 0 && pthread_spin_trylock(&spin) == EBUSY &&
        pthread_spin_unlock(&spin) == 0 && pthread_spin_destroy(&spin) == 0);

  CHECK(pthread_mutex_lock(&mutex) == 0 && pthread_mutex_trylock(&mutex) == EBUSY);
  CHECK(in_thread(try_it, &mutex) == EBUSY);
  CHECK(in_thread(lock_for_20_ms, &mutex) == ETIMEDOUT);
  CHECK(in_thread(lock_for_20_monotonic_ms, &mutex) == ETIMEDOUT);
  CHECK(in_thread(lock_until_no_time, &mutex) == EINVAL);
  CHECK(pthread_mutex_destroy(&mutex) == EBUSY);
  CHECK(pthread_mutex_unlock(&mutex) == 0);
  /* A free mutex is taken even with an invalid deadline. */
  CHECK(in_thread(lock_until_no_time, &mutex) == 0 && pthread_mutex_unlock(&mutex) == 0);

  recursive = made(PTHREAD_MUTEX_RECURSIVE);
  CHECK(pthread_mutex_lock(&recursive) == 0 && pthread_mutex_lock(&recursive) == 0 &&
        pthread_mutex_trylock(&recursive) == 0);
  CHECK(in_thread(try_it, &recursive) == EBUSY && in_thread(unlock_it, &recursive) == EPERM);
  CHECK(pthread_mutex_unlock(&recursive) == 0 && pthread_mutex_unlock(&recursive) == 0);
  CHECK(in_thread(try_it, &recursive) == EBUSY);
  CHECK(pthread_mutex_unlock(&recursive) == 0 && pthread_mutex_unlock(&recursive) == EPERM);
  CHECK(pthread_mutex_destroy(&recursive) == 0);

  checked = made(PTHREAD_MUTEX_ERRORCHECK);
  CHECK(pthread_mutex_unlock(&checked) == EPERM);
  CHECK(pthread_mutex_lock(&checked) == 0 && pthread_mutex_lock(&checked) == EDEADLK &&
        pthread_mutex_trylock(&checked) == EBUSY);
  struct timespec now = in_ms(CLOCK_REALTIME, 0);
  CHECK(pthread_mutex_timedlock(&checked, &now) == EDEADLK);
  CHECK(in_thread(unlock_it, &checked) == EPERM);
  CHECK(pthread_mutex_unlock(&checked) == 0);

  pthread_mutexattr_t attributes;
  int number = -1;
  pthread_mutexattr_init(&attributes);
  CHECK(pthread_mutexattr_gettype(&attributes, &number) == 0 && number == PTHREAD_MUTEX_DEFAULT);
  CHECK(pthread_mutexattr_settype(&attributes, 9) == EINVAL);
  CHECK(pthread_mutexattr_getpshared(&attributes, &number) == 0 &&
        number == PTHREAD_PROCESS_PRIVATE &&
        pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED) == 0 &&
        pthread_mutexattr_getpshared(&attributes, &number) == 0 &&
        number == PTHREAD_PROCESS_SHARED && pthread_mutexattr_setpshared(&attributes, 5) == EINVAL);
  CHECK(pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST) == ENOTSUP &&
        pthread_mutexattr_getrobust(&attributes, &number) == 0 && number == PTHREAD_MUTEX_STALLED);
  CHECK(pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT) == ENOTSUP &&
        pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_NONE) == 0);

  for (int i = 0; i < 300; i++) {
    struct short_lived* object = malloc(sizeof *object);
    pthread_mutex_init(&object->mutex, NULL);
    object->users = 3;
    pthread_t threads[3];
    for (int t = 0; t < 3; t++) threads[t] = begin(use_short_lived, object);
    for (int t = 0; t < 3; t++) join(threads[t]);
  }
  CHECK(1);
}
