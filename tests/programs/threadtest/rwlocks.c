/* Locks for readers and writers. */
#include "threadtest.h"

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
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
  EXPECT(pthread_rwlock_unlock(&lock) == EPERM);
  EXPECT(pthread_rwlock_rdlock(&lock) == 0);
  EXPECT(join(begin(try_both, NULL)) == (void*)EBUSY);
  EXPECT(pthread_rwlock_destroy(&lock) == EBUSY);
  EXPECT(pthread_rwlock_unlock(&lock) == 0 && pthread_rwlock_wrlock(&lock) == 0);
  EXPECT(join(begin(try_both, NULL)) == (void*)(long)(EBUSY << 16 | ETIMEDOUT << 8 | EBUSY));
  EXPECT(pthread_rwlock_unlock(&lock) == 0 && pthread_rwlock_destroy(&lock) == 0);

  pthread_rwlockattr_t attributes;
  int number;
  EXPECT(pthread_rwlockattr_init(&attributes) == 0 &&
         pthread_rwlockattr_getpshared(&attributes, &number) == 0 &&
         number == PTHREAD_PROCESS_PRIVATE &&
         pthread_rwlockattr_setpshared(&attributes, 3) == EINVAL &&
         pthread_rwlock_init(&lock, &attributes) == 0 &&
         pthread_rwlockattr_destroy(&attributes) == 0);
}
