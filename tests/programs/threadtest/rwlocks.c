/* Locks for readers and writers. */
#include "threadtest.h"

enum { THREADS = 8, TIMES = 2000 };

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static long one, other; /* always equal, except during a write */
static atomic_int readers;

static void read_pair(void) {
  atomic_fetch_add(&readers, 1);
  EXPECT(one == other);
  atomic_fetch_sub(&readers, 1);
}
static void write_pair(void) {
  EXPECT(atomic_load(&readers) == 0);
  one++;
  if (one % 8 == 0) sched_yield();
  other++;
  EXPECT(atomic_load(&readers) == 0);
}

static void* use(void* argument) {
  for (int i = 0; i < TIMES; i++) {
    struct timespec later;
    switch ((i + (int)(long)argument) % 8) {
      case 0:
        EXPECT(pthread_rwlock_wrlock(&lock) == 0);
        write_pair();
        break;
      case 1:
        while (pthread_rwlock_trywrlock(&lock) == EBUSY) sched_yield();
        write_pair();
        break;
      case 2:
        do {
          later = in_ms(CLOCK_REALTIME, 1);
        } while (pthread_rwlock_timedwrlock(&lock, &later) == ETIMEDOUT);
        write_pair();
        break;
      case 3:
        while (pthread_rwlock_tryrdlock(&lock) == EBUSY) sched_yield();
        read_pair();
        break;
      case 4:
        do {
          later = in_ms(CLOCK_REALTIME, 1);
        } while (pthread_rwlock_timedrdlock(&lock, &later) == ETIMEDOUT);
        read_pair();
        break;
      case 5: /* a second read lock never waits for a waiting writer */
        EXPECT(pthread_rwlock_rdlock(&lock) == 0);
        EXPECT(pthread_rwlock_rdlock(&lock) == 0);
        read_pair();
        EXPECT(pthread_rwlock_unlock(&lock) == 0);
        break;
      default:
        EXPECT(pthread_rwlock_rdlock(&lock) == 0);
        read_pair();
    }
    EXPECT(pthread_rwlock_unlock(&lock) == 0);
  }
  return NULL;
}

static void* try_both(void* argument) {
  (void)argument;
  struct timespec soon = in_ms(CLOCK_MONOTONIC, 10);
  EXPECT(pthread_rwlock_clockwrlock(&lock, CLOCK_MONOTONIC, &soon) == ETIMEDOUT);
  EXPECT(is_over(CLOCK_MONOTONIC, &soon));
  const int reading = pthread_rwlock_tryrdlock(&lock);
  if (reading == 0) pthread_rwlock_unlock(&lock);
  const int timed = pthread_rwlock_clockrdlock(&lock, CLOCK_MONOTONIC, &soon);
  if (timed == 0) pthread_rwlock_unlock(&lock);
  const int writing = pthread_rwlock_trywrlock(&lock);
  return (void*)(long)(reading << 16 | timed << 8 | writing);
}

void test_rwlocks(void) {
  pthread_t threads[THREADS];
  for (long i = 0; i < THREADS; i++) threads[i] = begin(use, (void*)i);
  for (int i = 0; i < THREADS; i++) join(threads[i]);
  CHECK(one == other && one == THREADS * TIMES / 8 * 3);

  CHECK(pthread_rwlock_unlock(&lock) == EPERM);
  CHECK(pthread_rwlock_rdlock(&lock) == 0);
  CHECK(join(begin(try_both, NULL)) == (void*)EBUSY);
  CHECK(pthread_rwlock_destroy(&lock) == EBUSY);
  CHECK(pthread_rwlock_unlock(&lock) == 0 && pthread_rwlock_wrlock(&lock) == 0);
  CHECK(join(begin(try_both, NULL)) == (void*)(long)(EBUSY << 16 | ETIMEDOUT << 8 | EBUSY));
  CHECK(pthread_rwlock_unlock(&lock) == 0 && pthread_rwlock_destroy(&lock) == 0);

  pthread_rwlockattr_t attributes;
  int number;
  CHECK(pthread_rwlockattr_init(&attributes) == 0 &&
        pthread_rwlockattr_getpshared(&attributes, &number) == 0 &&
        number == PTHREAD_PROCESS_PRIVATE &&
        pthread_rwlockattr_setpshared(&attributes, 3) == EINVAL &&
        pthread_rwlock_init(&lock, &attributes) == 0 &&
        pthread_rwlockattr_destroy(&attributes) == 0);
}
