/* sigtest: checks signals, timers, waiting and limits through the C library, inside the guest.
 * Prints TAP on standard output. The status is 1 if a check fails. */
#include "sigtest.h"

const char* program;

static int call_as_nobody(void* function) {
  return setgid(65534) != 0 || setuid(65534) != 0 ? CHILD_FAILED : (*(int (**)(void))function)();
}
int as_nobody(int (*function)(void)) {
  return in_child_with(call_as_nobody, &function);
}

void handle(int signal, void (*handler)(int, siginfo_t*, void*), int flags) {
  struct sigaction action = {.sa_sigaction = handler, .sa_flags = flags | SA_SIGINFO};
  sigaction(signal, &action, NULL);
}

void block(int signal) {
  sigset_t set = only(signal);
  sigprocmask(SIG_BLOCK, &set, NULL);
}

void unblock(int signal) {
  sigset_t set = only(signal);
  sigprocmask(SIG_UNBLOCK, &set, NULL);
}

int main(int argc, char** argv) {
  setvbuf(stdout, NULL, _IOLBF, BUFSIZ);
  program = argv[0];
  if (argc > 1 && strcmp(argv[1], "after_exec") == 0) return after_exec();
  if (argc > 1 && strcmp(argv[1], "share") == 0) return share();
  if (argc > 2 && strcmp(argv[1], "crowd") == 0) return crowd(atoi(argv[2]));
  if (argc > 1 && strcmp(argv[1], "ptys") == 0) return ptys();
  if (argc > 2 && strcmp(argv[1], "hoard") == 0) return hoard(argv[2]);
  if (argc > 1 && strcmp(argv[1], "pollers") == 0) return pollers();
  if (argc > 1 && strcmp(argv[1], "deaf") == 0) return deaf();
  if (argc > 3 && strcmp(argv[1], "greed") == 0) return greed(atoi(argv[2]), atoi(argv[3]));
  test_info();
  test_frames();
  test_children();
  test_timers();
  test_clocks();
  test_polls();
  test_limits();
  test_users();
  return tap_end();
}
