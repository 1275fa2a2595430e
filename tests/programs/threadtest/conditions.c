/* Conditions: no waiter is lost, deadlines hold, and a condition may be destroyed right after a
 * broadcast has woken all waiters. */
#include "threadtest.h"

enum { WAITERS = 16 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

/* Threads take turns. Each thread waits until `turn` has the number of the thread's next turn, then
 * increments `turn` and broadcasts. */
static int turn;
static pthread_cond_t turns = PTHREAD_COND_INITIALIZER;
static void* take_turns(void* argument) {
  const int me = (int)(long)argument;
  for (int round = 0; round < 50; round++) {
    pthread_mutex_lock(&mutex);
    while (turn != round * WAITERS + me) pthread_cond_wait(&turns, &mutex);
    turn++;
    pthread_cond_broadcast(&turns);
    pthread_mutex_unlock(&mutex);
  }
  return NULL;
}

/* A condition that is destroyed right after a broadcast, while its waiters still wake up. */
struct short_lived {
  pthread_mutex_t mutex;
  pthread_cond_t condition;
  int waiting, open;
};
static void* wait_for_opening(void* argument) {
  struct short_lived* object = argument;
  pthread_mutex_lock(&object->mutex);
  object->waiting++;
  while (!object->open) {
    struct timespec soon = in_ms(CLOCK_REALTIME, 1);
    if (object->waiting % 2)
      pthread_cond_wait(&object->condition, &object->mutex);
    else
      pthread_cond_timedwait(&object->condition, &object->mutex, &soon);
  }
  pthread_mutex_unlock(&object->mutex);
  return NULL;
}

void test_conditions(void) {
  pthread_t threads[WAITERS];
  for (long i = 0; i < WAITERS; i++) threads[i] = begin(take_turns, (void*)i);
  for (int i = 0; i < WAITERS; i++) join(threads[i]);
  EXPECT(turn == 50 * WAITERS);

  pthread_condattr_t attributes;
  clockid_t clock;
  int number;
  pthread_cond_t condition;
  EXPECT(pthread_condattr_init(&attributes) == 0 &&
         pthread_condattr_getclock(&attributes, &clock) == 0 && clock == CLOCK_REALTIME);
  EXPECT(pthread_condattr_setclock(&attributes, CLOCK_PROCESS_CPUTIME_ID) == EINVAL);
  EXPECT(pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC) == 0 &&
         pthread_condattr_getclock(&attributes, &clock) == 0 && clock == CLOCK_MONOTONIC);
  EXPECT(pthread_condattr_getpshared(&attributes, &number) == 0 &&
         number == PTHREAD_PROCESS_PRIVATE);
  EXPECT(pthread_cond_init(&condition, &attributes) == 0);
  pthread_mutex_lock(&mutex);
  struct timespec soon = in_ms(CLOCK_MONOTONIC, 20);
  EXPECT(pthread_cond_timedwait(&condition, &mutex, &soon) == ETIMEDOUT &&
         is_over(CLOCK_MONOTONIC, &soon));
  soon = in_ms(CLOCK_REALTIME, 20);
  EXPECT(pthread_cond_timedwait(&turns, &mutex, &soon) == ETIMEDOUT &&
         is_over(CLOCK_REALTIME, &soon));
  soon = in_ms(CLOCK_MONOTONIC, 20);
  EXPECT(pthread_cond_clockwait(&turns, &mutex, CLOCK_MONOTONIC, &soon) == ETIMEDOUT &&
         is_over(CLOCK_MONOTONIC, &soon));
  soon.tv_nsec = -1;
  EXPECT(pthread_cond_timedwait(&turns, &mutex, &soon) == EINVAL);
  EXPECT(pthread_mutex_trylock(&mutex) == EBUSY);
  pthread_mutex_unlock(&mutex);
  pthread_mutex_t checked = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
  EXPECT(pthread_cond_wait(&condition, &checked) == EPERM);
  EXPECT(pthread_cond_signal(&condition) == 0 && pthread_cond_broadcast(&condition) == 0 &&
         pthread_cond_destroy(&condition) == 0);

  for (int i = 0; i < 100; i++) {
    struct short_lived* object = malloc(sizeof *object);
    *object = (struct short_lived){.mutex = PTHREAD_MUTEX_INITIALIZER,
                                   .condition = PTHREAD_COND_INITIALIZER};
    for (int t = 0; t < 4; t++) threads[t] = begin(wait_for_opening, object);
    int waiting;
    do {
      sched_yield();
      pthread_mutex_lock(&object->mutex);
      waiting = object->waiting;
      if (waiting < 4) pthread_mutex_unlock(&object->mutex);
    } while (waiting < 4);
    object->open = 1;
    pthread_cond_broadcast(&object->condition);
    EXPECT(pthread_cond_destroy(&object->condition) == 0);
    memset(&object->condition, 0xff, sizeof object->condition);
    pthread_mutex_unlock(&object->mutex);
    for (int t = 0; t < 4; t++) join(threads[t]);
    free(object);
  }
}
