/* threadtest [NAME…]: checks threads through the C library, inside the guest. NAME is a name in
 * tests[]. Runs all tests if no NAME is given. Prints TAP on standard output. The status is 1 if a
 * check fails. */
#include "threadtest.h"

static atomic_int number, failures;

void check(int good, const char* what, const char* file, int line) {
  const int error = errno;
  flockfile(stdout);
  printf("%sok %d - %s\n", good ? "" : "not ", ++number, what);
  if (!good) {
    failures++;
    printf("# %s, line %d, errno %d: %s\n", file, line, error, strerror(error));
  }
  fflush(stdout);
  funlockfile(stdout);
}

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

int in_child(int (*function)(void)) {
  fflush(stdout);
  const pid_t child = fork();
  if (child == 0) _exit(function());
  int status = -1;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  return status;
}

static const struct {
  const char* name;
  void (*function)(void);
} tests[] = {
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
enum { TESTS = sizeof tests / sizeof *tests };

int main(int argc, char** argv) {
  setvbuf(stdout, NULL, _IOLBF, BUFSIZ);
  for (int i = 1; i < argc; i++) {
    int known = 0;
    for (int t = 0; t < TESTS; t++) known |= strcmp(argv[i], tests[t].name) == 0;
    if (known) continue;
    fprintf(stderr, "threadtest: %s: no such test\n", argv[i]);
    return 2;
  }
  for (int t = 0; t < TESTS; t++) {
    int wanted = argc == 1;
    for (int i = 1; i < argc; i++) wanted |= strcmp(argv[i], tests[t].name) == 0;
    if (!wanted) continue;
    printf("# %s\n", tests[t].name);
    tests[t].function();
  }
  printf("1..%d\n", number);
  return failures != 0;
}
