/* Shared by the files of proctest. */
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
#include <time.h>
#include <unistd.h>

#include "abi/errno.h"
#include "abi/syscall.h"
#include "testing/testing.h"

/* Makes a system call with a path that is relative to the current directory. */
#define CALL_AT(name, ...) STELE_CALL(name, ABI_AT_FDCWD, __VA_ARGS__)

extern const char* program;

/* poll with a timeout in milliseconds; -1: no timeout. */
long poll_ms(struct abi_pollfd* entries, long count, int ms);

void test_fork(void);
void test_memory(void);
void test_exec(void);
void test_signals(void);
void test_kill(void);
void test_faults(void);
void test_bad_pointers(void);
void test_descriptors(void);
void test_user_registers(void);
int make_frames(void);
int make_known_frames(void);
/* `proctest walk` and `proctest crowd` (walk.c). */
int walk_as(uid_t uid, int count, char** paths);
int crowd_as(uid_t uid, int users, int count, char** paths);
/* `proctest mended` (mended.c). */
int do_mended(const char* name);
/* `proctest helper`: does what its arguments say. test_exec and other tests execute it. */
int exec_helper(int argc, char** argv);
