/* Shared by the files of proctest. */
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
#include <time.h>
#include <unistd.h>

#include "abi/errno.h"
#include "abi/syscall.h"
#include "testing/testing.h"

/* The raw call: the kernel's result, not errno. */
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
#define RAW(name, a, b, c) raw(ABI_SYS_##name, (long)(a), (long)(b), (long)(c), 0, 0, 0)

/* The same with a path that begins at the current directory. */
#define RAW_AT(name, a, b, c) \
  raw(ABI_SYS_##name, ABI_AT_FDCWD, (long)(a), (long)(b), (long)(c), 0, 0)

extern const char* program;

void pause_ms(int ms);
/* poll with a timeout in milliseconds; -1: none. */
long poll_ms(struct abi_pollfd* entries, long count, int ms);

void test_fork(void);
void test_memory(void);
void test_exec(void);
void test_signals(void);
void test_kill(void);
void test_faults(void);
void test_bad_pointers(void);
void test_fuzz(void);
void test_descriptors(void);
void test_user_registers(void);
int make_frames(void);
int make_known_frames(void);
/* proctest walk. */
int walk_as(uid_t uid, int count, char** paths);
int crowd_as(uid_t uid, int users, int count, char** paths);
/* The work of a program that test_exec starts, with its arguments. */
int exec_helper(int argc, char** argv);
