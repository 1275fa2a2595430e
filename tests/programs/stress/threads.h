/* Shared by threads.c and thread_activities.c. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "stress.h"

/* Reports the error and ends the process with status 1. */
_Noreturn void wrong(const char* what, const char* file, int line);
#define MUST(condition)                                      \
  do {                                                       \
    if (!(condition)) wrong(#condition, __FILE__, __LINE__); \
  } while (0)

/* Starts a thread, and counts it in threads_made; the thread counts its end in threads_ended. The
 * caller joins or detaches the thread. False if there is no memory for it. */
bool begin(pthread_t* thread, void* (*function)(void*), void* argument);
void* join(pthread_t thread);
/* How many threads begin() has made, and how many of these threads have ended. */
extern atomic_long threads_made, threads_ended;

/* Waits for a child, which must exit with `code`, or be killed by SIGSEGV if `code` is SEGFAULT.
 * Memory may run out: the child may also exit with NO_MEMORY, as a shell does then, or another
 * process may kill it. `what` is for the report. */
enum { SEGFAULT = -1, NO_MEMORY = 2 };
void check_end(pid_t child, int code, const char* what);

/* thread_activities.c. A thread that may be cancelled calls act_in_thread() with cancellation
 * disabled. Some activities enable cancellation briefly. */
bool prepare_thread_activities(void); /* false: no memory */
/* Waits until all other threads have ended, then checks the shared data. */
void check_thread_activities(void);
