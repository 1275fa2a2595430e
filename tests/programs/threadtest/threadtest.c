/* threadtest [NAME…]: checks threads through the C library, inside the guest. NAME is a name in
 * tests[]. Runs all tests if no NAME is given. The activities of `stress` have threads that use
 * locks, conditions, semaphores, keys, signals, forks and the library at random; the tests here are
 * those that check more. */
#include "threadtest.h"

pthread_t begin(void* (*function)(void*), void* argument) {
  pthread_t thread;
  const int error = pthread_create(&thread, NULL, function, argument);
  if (error == 0) return thread;
  printf("Bail out! pthread_create: %s\n", strerror(error));
  exit(2);
}

void* join(pthread_t thread) {
  void* result;
  const int error = pthread_join(thread, &result);
  if (error == 0) return result;
  printf("Bail out! pthread_join: %s\n", strerror(error));
  exit(2);
}

struct timespec in_ms(clockid_t clock, long ms) {
  struct timespec time;
  clock_gettime(clock, &time);
  time.tv_nsec += ms * 1000000;
  time.tv_sec += time.tv_nsec / 1000000000;
  time.tv_nsec %= 1000000000;
  return time;
}
int is_over(clockid_t clock, const struct timespec* time) {
  struct timespec now;
  clock_gettime(clock, &now);
  return now.tv_sec > time->tv_sec || (now.tv_sec == time->tv_sec && now.tv_nsec >= time->tv_nsec);
}

static const struct named_test tests[] = {
    {"threads", test_threads},
    {"attributes", test_attributes},
    {"mutexes", test_mutexes},
    {"conditions", test_conditions},
    {"rwlocks", test_rwlocks},
    {"barriers", test_barriers},
    {"semaphores", test_semaphores},
    {"once", test_once},
    {"keys", test_keys},
    {"cancellation", test_cancellation},
    {"signals", test_signals},
    {"forks", test_forks},
    {"library", test_library},
    {"shared", test_shared},
    {"pages_of_waiters", test_pages_of_waiters},
};

int main(int argc, char** argv) {
  setvbuf(stdout, NULL, _IOLBF, BUFSIZ);
  return RUN_TESTS(tests, argc, argv);
}
