/* sessiontest [TEST…]: users, terminals and sessions, as programs meet them. Root only. Prints a
 * line for each test, and each failed expectation. Status 0 if there is none.
 */
#include "sessiontest.h"

#include <grp.h>

static int failures;

static const struct {
  const char* name;
  void (*run)(void);
} tests[] = {
    {"ids", test_ids},           {"groups", test_groups}, {"set_id", test_set_id},
    {"database", test_database}, {"ptys", test_ptys},     {"modes", test_modes},
    {"sessions", test_sessions}, {"files", test_files},
};

void expect(int good, const char* what, const char* file, int line) {
  if (good) return;
  failures++;
  printf("# %s:%d: not so: %s (errno %d)\n", file, line, what, errno);
}

int code(int wanted) {
  fflush(stdout);
  return failures ? 99 : wanted;
}

int run(int (*function)(void)) {
  failures = 0;
  return code(function());
}

pid_t start_child(int (*function)(void)) {
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) _exit(run(function));
  EXPECT(child > 0);
  if (child < 0) exit(99); /* the test would wait for the child's work */
  return child;
}

int exit_code_of(pid_t child) {
  int status;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return -1;
  }
  int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  EXPECT(code != 99);
  return code;
}

int in_child(int (*function)(void)) {
  return exit_code_of(start_child(function));
}

void become(uid_t uid) {
  if (setgroups(0, NULL) < 0 || setgid(uid) < 0 || setuid(uid) < 0) _exit(99);
}

int main(int argc, char** argv) {
  if (argc > 1 && strcmp(argv[1], "helper") == 0) return helper(argc, argv);
  int failed = 0;
  for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
    int wanted = argc == 1;
    for (int j = 1; j < argc; j++) wanted |= strcmp(argv[j], tests[i].name) == 0;
    if (!wanted) continue;
    failures = 0;
    tests[i].run();
    printf("%s %s\n", failures ? "not ok" : "ok", tests[i].name);
    fflush(stdout);
    failed |= failures != 0;
  }
  return failed;
}
