/* Shared by the files of failtest: the list of operations. */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <stele.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "abi/errno.h"
#include "abi/syscall.h"

/* Makes a system call with a path that is relative to the current directory. */
#define CALL_AT(name, ...) STELE_CALL(name, ABI_AT_FDCWD, __VA_ARGS__)

#define FOLDER "/tmp/failtest" /* exists, and is empty, before each attempt */
#define SCRIPT FOLDER "/script"

struct operation {
  const char* name;
  /* prepare() is called before the attempt and undo() after it, in the same process, while no
   * allocation fails. NULL: nothing to do. */
  void (*prepare)(const struct operation* self);
  void (*undo)(const struct operation* self);
  /* Makes the attempt. Returns a negated error number, or another value after success. Called a
   * second time after ENOMEM. */
  long (*call)(const struct operation* self);
  const char* path;
  long number;
  /* 1 if the failing allocation may belong to a page fault of the program, or to a page fault of
   * the kernel when the kernel accesses the program's memory. The kernel then kills the process. */
  int may_die;
};
extern const struct operation operations[];
extern const unsigned operation_count;

extern const char* program;
/* "first", or "again" for a second try. The operations "exec …" pass this word to the program that
 * they start. */
extern char try_number[8];
/* Ends the attempt because a preparation, which must succeed, failed with this error number. */
_Noreturn void not_prepared(long error);
/* Writes `failnext 0`, so that no more allocations fail, and exits with the outcome of the attempt.
 * `result` is the value that the call has returned; `again` is 1 if the call was the second try. */
_Noreturn void report(long result, int again);
