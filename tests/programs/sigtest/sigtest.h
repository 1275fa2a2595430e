/* Shared by the files of sigtest. */
#pragma once

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "testing/testing.h"

/* Runs the function in a child as user nobody. Returns the child's status, as in_child does. */
int as_nobody(int (*function)(void));

void handle(int signal, void (*handler)(int, siginfo_t*, void*), int flags);
/* block() adds the signal to the process's mask. unblock() removes the signal from the mask. */
void block(int signal);
void unblock(int signal);

extern const char* program;

void test_info(void);
void test_frames(void);
void test_children(void);
void test_timers(void);
void test_clocks(void);
void test_polls(void);
void test_limits(void);
void test_users(void);
/* The checks of `sigtest after_exec`, which test_timers executes. */
int after_exec(void);
/* `sigtest share`. Returns the program's status. */
int share(void);
/* `sigtest crowd PROCESSES` and `sigtest greed PROCESSES MEGABYTES`. */
int crowd(int processes);
int ptys(void);
/* `sigtest hoard KIND`, `sigtest pollers` and `sigtest deaf`. */
int hoard(const char* kind);
int pollers(void);
int deaf(void);
int greed(int processes, int megabytes);
