/* What the files of threadstress share. */
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

enum { THREADS_MAX = 256 };

/* Numbers of the calling thread: SplitMix64 (Steele, Lea & Flood, OOPSLA 2014). */
uint64_t any(void);
uint64_t below(uint64_t n);
bool one_in(unsigned n);
void seed_thread(uint64_t seed);

/* Says what is wrong and ends the process with status 1. */
_Noreturn void wrong(const char* what, const char* file, int line);
#define MUST(condition)                                      \
  do {                                                       \
    if (!(condition)) wrong(#condition, __FILE__, __LINE__); \
  } while (0)

struct timespec in_us(clockid_t clock, long us);

/* A thread of this process's, which is counted until it ends. The caller joins it. */
pthread_t begin(void* (*function)(void*), void* argument);
void* join(pthread_t thread);
/* Each thread that begin() made calls this as its last, by itself or by a cleanup handler. */
extern atomic_long threads_made, threads_ended;

/* activities.c: does one thing at random. With cancellation disabled; some enable it. */
void prepare_activities(void);
void do_something(void);
/* When all threads but this one have ended: all is as it was. */
void check_activities(void);
/* What a thread does now, for a report of a hang. */
extern _Thread_local const char** now_doing;
