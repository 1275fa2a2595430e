/* Threads: their start, their own data, and their end. */
#include <limits.h>
#include <sched.h>
#include <sys/mman.h>

#include "threadtest.h"

enum { MANY = 32 };

static __thread long own = 7;
static __thread char zeros[300];

static void* use_own(void* argument) {
  const long number = (long)argument;
  EXPECT(own == 7 && zeros[0] == 0 && zeros[299] == 0);
  own = number;
  memset(zeros, (int)number, sizeof zeros);
  errno = (int)number;
  sched_yield();
  EXPECT(own == number && errno == (int)number && zeros[150] == (char)number);
  char text[] = "a b c", *rest = NULL;
  EXPECT(strcmp(strtok_r(text, " ", &rest), "a") == 0);
  return (void*)(number * 2);
}

static void* tell_self(void* result) {
  *(pthread_t*)result = pthread_self();
  return NULL;
}
static void* leave_early(void* argument) {
  pthread_exit(argument);
}
static void* wait_for(void* semaphore) {
  while (sem_wait(semaphore) != 0) continue;
  return semaphore;
}
static void* post(void* semaphore) {
  sem_post(semaphore);
  return NULL;
}

static pthread_t first_thread;
static void* join_the_first(void* argument) {
  (void)argument;
  void* result = NULL;
  const int error = pthread_join(first_thread, &result);
  _exit(error == 0 && result == (void*)5 ? 42 : 1);
}
static int first_ends(void) {
  first_thread = pthread_self();
  begin(join_the_first, NULL);
  pthread_exit((void*)5);
}

static void say_bye(void) {
  _exit(17);
}
static void* only_ends(void* argument) {
  return argument;
}
/* When the last thread ends, the process ends as by exit(0), which runs the functions of atexit. */
static int last_ends(void) {
  atexit(say_bye);
  pthread_t thread = begin(only_ends, NULL);
  pthread_detach(thread);
  pthread_exit(NULL);
}

static void* exits(void* argument) {
  (void)argument;
  exit(23);
}
static int another_exits(void) {
  begin(exits, NULL);
  for (;;) pause();
  return 1;
}

void test_threads(void) {
  EXPECT(pthread_equal(pthread_self(), pthread_self()));
  pthread_t seen = 0, thread = begin(tell_self, &seen);
  join(thread);
  EXPECT(pthread_equal(seen, thread) && !pthread_equal(seen, pthread_self()));
  EXPECT(join(begin(leave_early, (void*)11)) == (void*)11);

  pthread_t threads[MANY];
  int right = 1;
  for (int round = 0; round < 4; round++) {
    for (long i = 0; i < MANY; i++) threads[i] = begin(use_own, (void*)(i + 1));
    for (long i = 0; i < MANY; i++) right &= join(threads[i]) == (void*)((i + 1) * 2);
  }
  EXPECT(right);
  EXPECT(own == 7 && zeros[0] == 0);

  EXPECT(pthread_join(pthread_self(), NULL) == EDEADLK);
  sem_t semaphore;
  sem_init(&semaphore, 0, 0);
  thread = begin(wait_for, &semaphore);
  void* result = NULL;
  struct timespec soon = in_ms(CLOCK_REALTIME, 20);
  EXPECT(pthread_tryjoin_np(thread, &result) == EBUSY);
  EXPECT(pthread_timedjoin_np(thread, &result, &soon) == ETIMEDOUT &&
         is_over(CLOCK_REALTIME, &soon));
  soon = in_ms(CLOCK_MONOTONIC, 20);
  EXPECT(pthread_clockjoin_np(thread, &result, CLOCK_MONOTONIC, &soon) == ETIMEDOUT &&
         is_over(CLOCK_MONOTONIC, &soon));
  sem_post(&semaphore);
  EXPECT(join(thread) == &semaphore);

  /* A detached thread cannot be joined, and its memory is reused. */
  for (int i = 0; i < 200; i++) {
    thread = begin(post, &semaphore);
    if (i % 2 == 0) EXPECT(pthread_detach(thread) == 0);
    while (sem_wait(&semaphore) != 0) continue;
    if (i % 2 == 1) EXPECT(pthread_detach(thread) == 0); /* the thread may have ended */
  }
  thread = begin(wait_for, &semaphore);
  EXPECT(pthread_detach(thread) == 0 && pthread_detach(thread) == EINVAL &&
         pthread_join(thread, NULL) == EINVAL);
  sem_post(&semaphore);

  char name[16] = "x";
  EXPECT(pthread_setname_np(pthread_self(), "a name of 16 chr") == ERANGE);
  EXPECT(pthread_setname_np(pthread_self(), "mother") == 0 &&
         pthread_getname_np(pthread_self(), name, sizeof name) == 0 && strcmp(name, "mother") == 0);
  EXPECT(pthread_getname_np(pthread_self(), name, 3) == ERANGE);
  clockid_t clock;
  EXPECT(pthread_getcpuclockid(pthread_self(), &clock) == 0 && clock == CLOCK_THREAD_CPUTIME_ID);
  EXPECT(sysconf(_SC_THREADS) > 0 && sysconf(_SC_THREAD_KEYS_MAX) == PTHREAD_KEYS_MAX);

  int status = in_child(first_ends);
  EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 42);
  status = in_child(last_ends);
  EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 17);
  status = in_child(another_exits);
  EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 23);
}

/* ---- Attributes. */

static void* where(void* result) {
  *(void**)result = __builtin_frame_address(0);
  return NULL;
}
static void* use_much(void* size) {
  volatile char much[(size_t)size];
  for (size_t i = 0; i < (size_t)size; i += 1024) much[i] = 1;
  return (void*)(long)much[0];
}
static void* own_attributes(void* result) {
  pthread_getattr_np(pthread_self(), result);
  return NULL;
}

static void* run_over(void* argument) {
  pthread_attr_t attributes;
  (void)argument;
  void* stack;
  size_t size;
  pthread_getattr_np(pthread_self(), &attributes);
  pthread_attr_getstack(&attributes, &stack, &size);
  *((volatile char*)stack - 1) = 1; /* writes to the guard page */
  return NULL;
}
static int into_the_guard(void) {
  join(begin(run_over, NULL));
  return 1;
}

void test_attributes(void) {
  pthread_attr_t attributes;
  pthread_t thread;
  size_t size;
  void* stack;
  int number;
  struct sched_param parameters;
  EXPECT(pthread_attr_init(&attributes) == 0);
  EXPECT(pthread_attr_getdetachstate(&attributes, &number) == 0 &&
         number == PTHREAD_CREATE_JOINABLE);
  EXPECT(pthread_attr_setdetachstate(&attributes, 9) == EINVAL);
  EXPECT(pthread_attr_getguardsize(&attributes, &size) == 0 && size > 0);
  EXPECT(pthread_attr_setguardsize(&attributes, 10000) == 0 &&
         pthread_attr_getguardsize(&attributes, &size) == 0 && size == 10000);
  EXPECT(pthread_attr_setstacksize(&attributes, PTHREAD_STACK_MIN - 1) == EINVAL);
  EXPECT(pthread_attr_setstacksize(&attributes, 300000) == 0 &&
         pthread_attr_getstacksize(&attributes, &size) == 0 && size == 300000);
  EXPECT(pthread_create(&thread, &attributes, use_much, (void*)290000) == 0 &&
         join(thread) == (void*)1);
  EXPECT(pthread_attr_setstacksize(&attributes, SIZE_MAX / 2) == 0 &&
         pthread_create(&thread, &attributes, use_much, NULL) == EAGAIN);
  EXPECT(pthread_attr_setstacksize(&attributes, PTHREAD_STACK_MIN) == 0 &&
         pthread_attr_setguardsize(&attributes, 0) == 0 &&
         pthread_create(&thread, &attributes, where, &stack) == 0 && join(thread) == NULL);

  static char memory[65536] __attribute__((aligned(16)));
  char* here = NULL;
  EXPECT(pthread_attr_setstack(&attributes, memory, 100) == EINVAL &&
         pthread_attr_setstack(&attributes, memory + 1, sizeof memory - 16) == EINVAL);
  EXPECT(pthread_attr_setstack(&attributes, memory, sizeof memory) == 0 &&
         pthread_attr_getstack(&attributes, &stack, &size) == 0 && stack == memory &&
         size == sizeof memory);
  EXPECT(pthread_create(&thread, &attributes, where, &here) == 0 && join(thread) == NULL &&
         here > memory && here < memory + sizeof memory);
  EXPECT(pthread_create(&thread, &attributes, where, &here) == 0 && join(thread) == NULL);

  pthread_attr_t seen;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 200000);
  EXPECT(pthread_create(&thread, &attributes, own_attributes, &seen) == 0 && join(thread) == NULL &&
         pthread_attr_getstacksize(&seen, &size) == 0 && size >= 200000);
  EXPECT(pthread_getattr_np(pthread_self(), &seen) == 0 &&
         pthread_attr_getstack(&seen, &stack, &size) == 0 && (char*)&seen > (char*)stack &&
         (char*)&seen < (char*)stack + size);

  EXPECT(pthread_attr_getinheritsched(&attributes, &number) == 0 &&
         number == PTHREAD_INHERIT_SCHED &&
         pthread_attr_setinheritsched(&attributes, PTHREAD_EXPLICIT_SCHED) == 0 &&
         pthread_attr_setinheritsched(&attributes, 7) == EINVAL);
  EXPECT(pthread_attr_getschedpolicy(&attributes, &number) == 0 && number == SCHED_OTHER &&
         pthread_attr_setschedpolicy(&attributes, SCHED_FIFO) == ENOTSUP &&
         pthread_attr_setschedpolicy(&attributes, 77) == EINVAL);
  EXPECT(pthread_attr_getschedparam(&attributes, &parameters) == 0 &&
         parameters.sched_priority == 0 &&
         pthread_attr_setschedparam(&attributes, &parameters) == 0);
  EXPECT(pthread_attr_getscope(&attributes, &number) == 0 && number == PTHREAD_SCOPE_SYSTEM &&
         pthread_attr_setscope(&attributes, PTHREAD_SCOPE_PROCESS) == ENOTSUP);
  EXPECT(pthread_getschedparam(pthread_self(), &number, &parameters) == 0 &&
         number == SCHED_OTHER &&
         pthread_setschedparam(pthread_self(), SCHED_OTHER, &parameters) == 0 &&
         pthread_setschedparam(pthread_self(), SCHED_FIFO, &parameters) == EPERM);
  EXPECT(sched_get_priority_max(SCHED_OTHER) == 0 && sched_get_priority_min(99) == -1 &&
         sched_getscheduler(0) == SCHED_OTHER && sched_getparam(0, &parameters) == 0 &&
         sched_setscheduler(0, SCHED_OTHER, &parameters) == 0 &&
         sched_getscheduler(0x3fffffff) == -1 && errno == ESRCH);
  EXPECT(pthread_getconcurrency() == 0 && pthread_setconcurrency(4) == 0 &&
         pthread_getconcurrency() == 4 && pthread_setconcurrency(-1) == EINVAL);

  int status = in_child(into_the_guard);
  EXPECT(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
}
