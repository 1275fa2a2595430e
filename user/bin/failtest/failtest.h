/* Shared by the files of failtest: the list of operations. */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "abi/errno.h"
#include "abi/syscall.h"

/* The raw call: the kernel's result, not errno. It touches no memory of the program, only
 * registers. */
static inline long raw(long number, long a, long b, long c, long d, long e, long f) {
  long result;
  register long r10 __asm__("r10") = d;
  register long r8 __asm__("r8") = e;
  register long r9 __asm__("r9") = f;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                   : "rcx", "r11", "memory");
  return result;
}
#define RAW3(name, a, b, c) raw(ABI_SYS_##name, (long)(a), (long)(b), (long)(c), 0, 0, 0)
#define RAW6(name, a, b, c, d, e, f) \
  raw(ABI_SYS_##name, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))
/* With a path that begins at the current directory. */
#define RAW_AT(name, a, b, c) RAW6(name, ABI_AT_FDCWD, a, b, c, 0, 0)

#define FOLDER "/tmp/failtest" /* exists, and is empty, before each attempt */
#define SCRIPT FOLDER "/script"

struct operation {
  const char* name;
  /* Without failures: before and after the attempt, in its process. NULL for nothing. */
  void (*prepare)(const struct operation* self);
  void (*undo)(const struct operation* self);
  /* The attempt: returns a negated error number, or another value. Repeated after a failure. */
  long (*call)(const struct operation* self);
  const char* path;
  long number;
  /* The failing allocation may be that of a page fault, of the program or of the kernel for it;
   * then the process can only be killed. */
  int may_die;
};
extern const struct operation operations[];
extern const unsigned operation_count;

extern const char* program;
/* "again" for a second try: a program that `exec` starts gets it. */
extern char try_number[8];
/* Ends the attempt: a preparation, which must succeed, gave this error number. */
_Noreturn void not_prepared(long error);
/* Ends the order, and exits with the outcome of the attempt, which had `result`. */
_Noreturn void report(long result, int again);
