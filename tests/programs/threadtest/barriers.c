/* Barriers, semaphores, pthread_once and thread-specific data. */
#include <limits.h>

#include "threadtest.h"

enum { THREADS = 8, ROUNDS = 400 };

static pthread_barrier_t barrier;
static atomic_int here, serial;

static void* meet(void* argument) {
  for (int round = 0; round < ROUNDS; round++) {
    atomic_fetch_add(&here, 1);
    const int result = pthread_barrier_wait(&barrier);
    EXPECT(result == 0 || result == PTHREAD_BARRIER_SERIAL_THREAD);
    if (result == PTHREAD_BARRIER_SERIAL_THREAD) atomic_fetch_add(&serial, 1);
    EXPECT(atomic_load(&here) >= THREADS * (round + 1));
    /* The second wait keeps all threads in this round until all have checked. */
    pthread_barrier_wait(&barrier);
    EXPECT(atomic_load(&here) <= THREADS * (round + 2));
  }
  return argument;
}

static void* meet_and_destroy(void* argument) {
  pthread_barrier_t* mine = argument;
  if (pthread_barrier_wait(mine) == PTHREAD_BARRIER_SERIAL_THREAD) {
    EXPECT(pthread_barrier_destroy(mine) == 0);
    memset(mine, 0xff, sizeof *mine);
    free(mine);
  }
  return NULL;
}

void test_barriers(void) {
  pthread_t threads[THREADS];
  EXPECT(pthread_barrier_init(&barrier, NULL, 0) == EINVAL);
  EXPECT(pthread_barrier_init(&barrier, NULL, THREADS) == 0);
  for (int i = 0; i < THREADS; i++) threads[i] = begin(meet, NULL);
  for (int i = 0; i < THREADS; i++) join(threads[i]);
  EXPECT(atomic_load(&here) == THREADS * ROUNDS && atomic_load(&serial) == ROUNDS);
  EXPECT(pthread_barrier_destroy(&barrier) == 0);
  EXPECT(pthread_barrier_init(&barrier, NULL, 1) == 0 &&
         pthread_barrier_wait(&barrier) == PTHREAD_BARRIER_SERIAL_THREAD &&
         pthread_barrier_destroy(&barrier) == 0);
  for (int i = 0; i < 200; i++) {
    pthread_barrier_t* mine = malloc(sizeof *mine);
    pthread_barrier_init(mine, NULL, 4);
    for (int t = 0; t < 4; t++) threads[t] = begin(meet_and_destroy, mine);
    for (int t = 0; t < 4; t++) join(threads[t]);
  }
  pthread_barrierattr_t attributes;
  int number;
  EXPECT(pthread_barrierattr_init(&attributes) == 0 &&
         pthread_barrierattr_getpshared(&attributes, &number) == 0 &&
         number == PTHREAD_PROCESS_PRIVATE && pthread_barrierattr_destroy(&attributes) == 0);
}

/* ---- Semaphores. */

static sem_t things;
static void* post(void* semaphore) {
  sem_post(semaphore);
  return NULL;
}

void test_semaphores(void) {
  int value = -1;
  EXPECT(sem_init(&things, 0, SEM_VALUE_MAX + 1u) == -1 && errno == EINVAL);
  EXPECT(sem_init(&things, 0, 0) == 0);
  EXPECT(sem_getvalue(&things, &value) == 0 && value == 0);
  EXPECT(sem_trywait(&things) == -1 && errno == EAGAIN);
  struct timespec soon = in_ms(CLOCK_REALTIME, 20);
  EXPECT(sem_timedwait(&things, &soon) == -1 && errno == ETIMEDOUT &&
         is_over(CLOCK_REALTIME, &soon));
  soon = in_ms(CLOCK_MONOTONIC, 20);
  EXPECT(sem_clockwait(&things, CLOCK_MONOTONIC, &soon) == -1 && errno == ETIMEDOUT &&
         is_over(CLOCK_MONOTONIC, &soon));
  soon.tv_nsec = 1000000000;
  EXPECT(sem_timedwait(&things, &soon) == -1 && errno == EINVAL);
  /* If there is no need to wait, an invalid time is no error. */
  EXPECT(sem_post(&things) == 0 && sem_timedwait(&things, &soon) == 0);
  EXPECT(sem_destroy(&things) == 0);
  EXPECT(sem_init(&things, 0, SEM_VALUE_MAX) == 0 && sem_post(&things) == -1 && errno == EOVERFLOW);
  for (int i = 0; i < 200; i++) {
    sem_t* semaphore = malloc(sizeof *semaphore);
    sem_init(semaphore, 0, 0);
    pthread_t thread = begin(post, semaphore);
    while (sem_wait(semaphore) != 0) continue;
    sem_destroy(semaphore);
    memset(semaphore, 0xff, sizeof *semaphore);
    free(semaphore);
    join(thread);
  }
}

/* ---- Once. */

static pthread_once_t left = PTHREAD_ONCE_INIT;
static void be_left(void) {
  pthread_exit((void*)9);
}
static void* leave_once(void* argument) {
  pthread_once(&left, be_left);
  return argument;
}
static atomic_int after_left;
static void count_after_left(void) {
  after_left++;
}

void test_once(void) {
  /* pthread_once calls a function that ends the thread and does not return. Such a call does not
   * count, so the next pthread_once must call its function. */
  EXPECT(join(begin(leave_once, NULL)) == (void*)9);
  EXPECT(pthread_once(&left, count_after_left) == 0 && pthread_once(&left, count_after_left) == 0 &&
         atomic_load(&after_left) == 1);
}

/* ---- Keys. */

static pthread_key_t keys[PTHREAD_KEYS_MAX];
static atomic_long destroyed;
static void destroy(void* value) {
  atomic_fetch_add(&destroyed, (long)value);
}
static pthread_key_t again;
static atomic_int rounds;
static void set_again(void* value) {
  atomic_fetch_add(&rounds, 1);
  pthread_setspecific(again, value);
}
static void* use_keys(void* argument) {
  for (int i = 0; i < 10; i++) {
    EXPECT(pthread_getspecific(keys[i]) == NULL);
    EXPECT(pthread_setspecific(keys[i], argument) == 0);
    sched_yield();
    EXPECT(pthread_getspecific(keys[i]) == argument);
  }
  return NULL;
}
static void* use_again(void* argument) {
  pthread_setspecific(again, argument);
  return argument;
}
static sem_t set, deleted;
static void* keep_value(void* argument) {
  pthread_setspecific(again, &set);
  sem_post(&set);
  while (sem_wait(&deleted) != 0) continue;
  return (void*)(pthread_getspecific(again) == NULL ? argument : NULL);
}

void test_keys(void) {
  int made = 0;
  pthread_t threads[THREADS];
  while (made < PTHREAD_KEYS_MAX && pthread_key_create(&keys[made], destroy) == 0) made++;
  EXPECT(made >= PTHREAD_KEYS_MAX - 2); /* the C++ library uses some */
  pthread_key_t one_more;
  EXPECT(pthread_key_create(&one_more, NULL) == EAGAIN);
  for (long i = 0; i < THREADS; i++) threads[i] = begin(use_keys, (void*)(i + 1));
  for (int i = 0; i < THREADS; i++) join(threads[i]);
  EXPECT(atomic_load(&destroyed) == 10L * THREADS * (THREADS + 1) / 2);
  EXPECT(pthread_getspecific(keys[0]) == NULL);
  EXPECT(pthread_getspecific(PTHREAD_KEYS_MAX) == NULL &&
         pthread_setspecific(PTHREAD_KEYS_MAX, &made) == EINVAL &&
         pthread_key_delete(PTHREAD_KEYS_MAX) == EINVAL);
  int good = 1;
  for (int i = 0; i < made; i++) good &= pthread_key_delete(keys[i]) == 0;
  EXPECT(good && pthread_key_delete(keys[0]) == EINVAL &&
         pthread_setspecific(keys[0], &made) == EINVAL);

  EXPECT(pthread_key_create(&again, set_again) == 0);
  join(begin(use_again, &rounds));
  EXPECT(atomic_load(&rounds) == PTHREAD_DESTRUCTOR_ITERATIONS);
  EXPECT(pthread_key_delete(again) == 0);

  /* A key that is deleted and created again has no value in any thread. */
  sem_init(&set, 0, 0);
  sem_init(&deleted, 0, 0);
  EXPECT(pthread_key_create(&again, NULL) == 0);
  const pthread_key_t old = again;
  pthread_t thread = begin(keep_value, &made);
  while (sem_wait(&set) != 0) continue;
  EXPECT(pthread_key_delete(again) == 0 && pthread_key_create(&again, NULL) == 0 && again == old);
  sem_post(&deleted);
  EXPECT(join(thread) == &made);
  pthread_key_delete(again);
}
