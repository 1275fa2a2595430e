/* Shared by the files of threadstress. */
#pragma once

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "testing/random.h"

enum { THREADS_MAX = 256 };

/* Prints the error and ends the process with status 1. */
_Noreturn void wrong(const char* what, const char* file, int line);
#define MUST(condition)                                      \
  do {                                                       \
    if (!(condition)) wrong(#condition, __FILE__, __LINE__); \
  } while (0)

/* Returns the clock's time `us` microseconds from now. */
struct timespec in_us(clockid_t clock, long us);

/* Starts a thread, and counts it in threads_made; the thread counts its end in threads_ended. The
 * caller joins or detaches the thread. */
pthread_t begin(void* (*function)(void*), void* argument);
void* join(pthread_t thread);
/* How many threads begin() has made, and how many of these threads have ended. */
extern atomic_long threads_made, threads_ended;

/* activities.c: do_something() does one activity, chosen at random. A thread that may be cancelled
 * calls do_something() with cancellation disabled. Some activities enable cancellation briefly. */
void prepare_activities(void);
void do_something(void);
/* Waits until all other threads have ended, then checks the shared data. */
void check_activities(void);
/* The thread's current activity, for a report of a hang. */
extern _Thread_local const char** now_doing;
