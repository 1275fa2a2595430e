/* Shared by test programs: checks, children, and tests that are chosen by name.
 *
 * A program prints TAP, a line for each CHECK and the plan at last (tap_end); or a line for each of
 * its named tests (run_tests), in which EXPECT tells only what is not so. Both count in
 * test_failures. For C; one thread at a time.
 */
#pragma once

#include <stddef.h>
#include <sys/types.h>

#define CHECK(condition) test_check(!!(condition), #condition, __FILE__, __LINE__)
#define EXPECT(condition) test_expect(!!(condition), #condition, __FILE__, __LINE__)
void test_check(int good, const char* what, const char* file, int line);
void test_expect(int good, const char* what, const char* file, int line);

/* Since the program, the named test or the child began. */
extern int test_failures;

/* Prints the plan; returns the program's exit status. */
int tap_end(void);

struct named_test {
  const char* name;
  void (*run)(void);
};
/* Runs the tests that the arguments name, or all if there are none; returns the program's exit
 * status. */
int run_tests(const struct named_test* tests, size_t count, int argc, char** argv);
#define RUN_TESTS(tests, argc, argv) run_tests(tests, sizeof(tests) / sizeof *(tests), argc, argv)

/* A child runs the function, and ends with what it returns; with CHILD_FAILED if a check or
 * expectation failed in it. A child that cannot be made, as happens without memory, ends the
 * program: what it should do would be waited for. */
enum { CHILD_FAILED = 99 };
pid_t start_child(int (*function)(void));
pid_t start_child_with(int (*function)(void*), void* argument);
/* As wait gives it; -1 if there is no such child. */
int status_of(pid_t child);
/* Its exit code, or 128 and the signal. CHILD_FAILED fails the caller's test, too. */
int exit_code_of(pid_t child);
/* Both at once; the status. */
int in_child(int (*function)(void));
int in_child_with(int (*function)(void*), void* argument);
