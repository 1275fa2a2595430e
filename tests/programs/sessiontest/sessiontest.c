/* sessiontest [TEST…]: tests users, terminals and sessions through the C library. Runs all tests if
 * no TEST is named. Only for root. Prints one line for each test and one for each failed
 * expectation. The status is 0 if no expectation failed.
 */
#include "sessiontest.h"

#include <grp.h>

static const struct named_test tests[] = {
    {"ids", test_ids},           {"groups", test_groups}, {"set_id", test_set_id},
    {"database", test_database}, {"ptys", test_ptys},     {"modes", test_modes},
    {"sessions", test_sessions}, {"files", test_files},
};

int code(int wanted) {
  fflush(stdout);
  return test_failures ? CHILD_FAILED : wanted;
}

int run(int (*function)(void)) {
  test_failures = 0;
  return code(function());
}

void become(uid_t uid) {
  if (setgroups(0, NULL) < 0 || setgid(uid) < 0 || setuid(uid) < 0) _exit(99);
}

int main(int argc, char** argv) {
  if (argc > 1 && strcmp(argv[1], "helper") == 0) return helper(argc, argv);
  return RUN_TESTS(tests, argc, argv);
}
