/* Shared by test programs: checks, children, and tests that are chosen by name.
 *
 * A program prints TAP in one of two ways. A program with CHECK prints a line for each check, and
 * the plan at the end (tap_end). A program with named tests (run_tests) prints a line for each
 * test, and EXPECT prints only failures. A failed CHECK or EXPECT increases test_failures. This
 * header is for C only. Several threads may use CHECK and EXPECT at once.
 */
#pragma once

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <sys/types.h>

#define CHECK(condition) test_check(!!(condition), #condition, __FILE__, __LINE__)
#define EXPECT(condition) test_expect(!!(condition), #condition, __FILE__, __LINE__)
void test_check(int good, const char* what, const char* file, int line);
void test_expect(int good, const char* what, const char* file, int line);

/* True if a call returned -1 (mmap: MAP_FAILED) with this error number. */
#define FAILS(call, error) ((long)(call) == -1 && errno == (error))

/* Counts the failed CHECKs and EXPECTs. A named test and a child each begin with 0. */
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

/* Forks a child, which runs the function and exits with the function's result, or with CHILD_FAILED
 * if a CHECK or EXPECT failed in the child. If fork fails, for lack of memory for example, the
 * whole program ends: no caller could go on without its child. */
enum { CHILD_FAILED = 99 };
pid_t start_child(int (*function)(void));
pid_t start_child_with(int (*function)(void*), void* argument);
/* Waits for the child and returns its status as waitpid gives it; -1 if there is no such child. */
int status_of(pid_t child);
/* Waits for the child and returns its exit code, or 128 + the number of the signal that killed it.
 * CHILD_FAILED makes the caller's test fail, too. */
int exit_code_of(pid_t child);
/* Starts a child, waits for it and returns its status as waitpid gives it. */
int in_child(int (*function)(void));
int in_child_with(int (*function)(void*), void* argument);

/* Sleeps for so long, even if signals come. */
void pause_ms(long ms);
/* The set of this signal. */
sigset_t only(int signal);
