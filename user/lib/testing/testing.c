#include "testing/testing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

int test_failures;
static int checks;

static void tell(const char* file, int line, int error, const char* what) {
  flockfile(stdout);
  test_failures++;
  printf("# %s:%d: not so: %s (errno %d: %s)\n", file, line, what, error, strerror(error));
  funlockfile(stdout);
}

void test_check(int good, const char* what, const char* file, int line) {
  const int error = errno;
  flockfile(stdout);
  printf("%sok %d - %s\n", good ? "" : "not ", ++checks, what);
  if (!good) tell(file, line, error, what);
  funlockfile(stdout);
}

void test_expect(int good, const char* what, const char* file, int line) {
  if (!good) tell(file, line, errno, what);
}

int tap_end(void) {
  printf("1..%d\n", checks);
  return test_failures != 0;
}

int run_tests(const struct named_test* tests, size_t count, int argc, char** argv) {
  int failed = 0;
  for (size_t i = 0; i < count; i++) {
    int wanted = argc == 1;
    for (int j = 1; j < argc; j++) wanted |= strcmp(argv[j], tests[i].name) == 0;
    if (!wanted) continue;
    test_failures = 0;
    tests[i].run();
    printf("%s %s\n", test_failures ? "not ok" : "ok", tests[i].name);
    fflush(stdout);
    failed |= test_failures != 0;
  }
  return failed;
}

pid_t start_child_with(int (*function)(void*), void* argument) {
  fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    test_failures = 0;
    const int code = function(argument);
    fflush(stdout);
    _exit(test_failures ? CHILD_FAILED : code);
  }
  if (child < 0) {
    perror("fork");
    exit(CHILD_FAILED);
  }
  return child;
}

static int call(void* function) {
  return (*(int (**)(void))function)();
}
pid_t start_child(int (*function)(void)) {
  return start_child_with(call, &function);
}

int status_of(pid_t child) {
  int status = -1;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return -1;
  }
  return status;
}

int exit_code_of(pid_t child) {
  const int status = status_of(child);
  EXPECT(!WIFEXITED(status) || WEXITSTATUS(status) != CHILD_FAILED);
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

int in_child(int (*function)(void)) {
  return status_of(start_child(function));
}
int in_child_with(int (*function)(void*), void* argument) {
  return status_of(start_child_with(function, argument));
}

void pause_ms(long ms) {
  struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
  while (nanosleep(&time, &time) < 0 && errno == EINTR) continue;
}

sigset_t only(int signal) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, signal);
  return set;
}
