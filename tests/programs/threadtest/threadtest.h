/* Shared by the files of threadtest. */
#pragma once

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "testing/testing.h"

/* Starts a thread. Ends the program if that fails. */
pthread_t begin(void* (*function)(void*), void* argument);
/* Joins a thread and returns its result. Ends the program if that fails. */
void* join(pthread_t thread);

/* Returns the clock's time `ms` milliseconds from now. */
struct timespec in_ms(clockid_t clock, long ms);
int is_over(clockid_t clock, const struct timespec* time);

void test_threads(void);
void test_attributes(void);
void test_mutexes(void);
void test_conditions(void);
void test_rwlocks(void);
void test_barriers(void);
void test_semaphores(void);
void test_once(void);
void test_keys(void);
void test_cancellation(void);
void test_signals(void);
void test_forks(void);
void test_library(void);
void test_shared(void);
void test_pages_of_waiters(void);
