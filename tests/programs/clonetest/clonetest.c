/* Tests the kernel's threads without the thread functions of the C library: each thread here uses
 * only its own stack, its own thread pointer and system calls. threadtest and stress test what the
 * same calls do below the thread functions: the ends of processes, exec and fork in a thread, masks
 * and signals of threads.
 *
 *   clonetest [NAME…]     runs the tests with these names, or all; status 1 if one fails
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <stele.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "abi/syscall.h"
#include "testing/testing.h"

enum { kThreads = 32, kStack = 16384 };

struct thread {
  void (*run)(struct thread*);
  _Atomic uint32_t id;
  long made; /* thread_create's result */
  long argument;
  uint64_t tls[64]; /* the thread pointer points to tls[32] */
  _Alignas(64) char stack[kStack];
};

static struct thread threads[kThreads];
static _Atomic uint32_t word, count;

static long futex(int operation, _Atomic uint32_t* at, uint32_t value) {
  return STELE_CALL(futex, operation, at, value, 0, 0);
}

static void begin(struct thread* thread) {
  thread->run(thread);
  STELE_CALL(thread_exit);
}

static long make(struct thread* thread, void (*run)(struct thread*), long argument) {
  thread->run = run;
  thread->argument = argument;
  thread->tls[32] = (uint64_t)&thread->tls[32];
  const struct abi_thread how = {.entry = (uint64_t)begin,
                                 .argument = (uint64_t)thread,
                                 .stack = (uint64_t)(thread->stack + kStack - 8),
                                 .tls = (uint64_t)&thread->tls[32],
                                 .id = (uint64_t)&thread->id};
  return thread->made = STELE_CALL(thread_create, &how);
}
static void join(struct thread* thread) {
  for (uint32_t id; (id = atomic_load(&thread->id)) != 0;) futex(ABI_FUTEX_WAIT, &thread->id, id);
}
static long gettid(void) {
  return STELE_CALL(gettid);
}

static int call_function(void* function) {
  (*(void (**)(void))function)();
  return 0;
}
/* Runs `function` in a child and returns its wait status. A failed EXPECT in the child fails the
 * test. */
static int in_child_that(void (*function)(void)) {
  const int status = in_child_with(call_function, &function);
  EXPECT(!WIFEXITED(status) || WEXITSTATUS(status) != CHILD_FAILED);
  return status;
}

/* ---- Making and ending. */

static void count_up(struct thread* thread) {
  uint64_t self;
  __asm__ volatile("movq %%fs:0, %0" : "=r"(self));
  if (self == (uint64_t)&thread->tls[32] && (uint32_t)gettid() == atomic_load(&thread->id))
    atomic_fetch_add(&count, 1);
}

static void test_create(void) {
  for (int round = 0; round < 20; round++) {
    atomic_store(&count, 0);
    for (int i = 0; i < kThreads; i++) EXPECT(make(&threads[i], count_up, i) > 0);
    for (int i = 0; i < kThreads; i++) join(&threads[i]);
    EXPECT(atomic_load(&count) == kThreads);
  }
  for (int i = 1; i < kThreads; i++) EXPECT(threads[i].made != threads[i - 1].made);
}

static void test_bad_arguments(void) {
  struct abi_thread how = {.entry = (uint64_t)begin, .stack = 0x1000, .tls = 0x2000};
  EXPECT(STELE_CALL(thread_create, 0) == -EFAULT);
  EXPECT(STELE_CALL(thread_create, -8) == -EFAULT);
  how.id = 16;
  EXPECT(STELE_CALL(thread_create, &how) == -EFAULT);
  how.id = UINT64_MAX;
  EXPECT(STELE_CALL(thread_create, &how) == -EFAULT);
  how.id = 0;
  how.tls = UINT64_MAX;
  EXPECT(STELE_CALL(thread_create, &how) == -EINVAL);
  how.tls = 0;
  how.entry = UINT64_MAX;
  EXPECT(STELE_CALL(thread_create, &how) == -EINVAL);
  EXPECT(STELE_CALL(thread_kill, 1 << 29, SIGUSR1) == -ESRCH);
  EXPECT(STELE_CALL(thread_kill, gettid(), 64) == -EINVAL);
  EXPECT(STELE_CALL(thread_kill, gettid(), 0) == 0);
  EXPECT(STELE_CALL(futex, 17, &word, 0, 0, 0) == -EINVAL);
  EXPECT(STELE_CALL(futex, ABI_FUTEX_WAIT, (long)&word + 1, 0, 0, 0) == -EINVAL);
  EXPECT(STELE_CALL(futex, ABI_FUTEX_WAIT, 4, 0, 0, 0) == -EFAULT);
  EXPECT(STELE_CALL(futex, ABI_FUTEX_WAIT, -4, 0, 0, 0) == -EFAULT);
  EXPECT(STELE_CALL(futex, ABI_FUTEX_WAKE, -4, 1, 0, 0) == -EFAULT);
  EXPECT(STELE_CALL(futex, ABI_FUTEX_WAIT_SHARED, 4, 0, 0, 0) == -EFAULT);
  EXPECT(STELE_CALL(futex, ABI_FUTEX_WAIT, &word, atomic_load(&word), ABI_CLOCK_MONOTONIC, 8) ==
         -EFAULT);
  EXPECT(futex(ABI_FUTEX_WAIT, &word, atomic_load(&word) + 1) == -EAGAIN);
}

static void sleep_for_good(struct thread* thread) {
  atomic_fetch_add(&count, 1);
  futex(ABI_FUTEX_WAKE, &count, UINT32_MAX);
  if (thread->argument) {
    for (;;) continue;
  }
  for (;;) futex(ABI_FUTEX_WAIT, &word, atomic_load(&word));
}
/* Makes `n` threads, of which every fourth runs for ever and the others sleep. Returns when all
 * have begun. */
static void make_sleepers(int n) {
  atomic_store(&count, 0);
  for (int i = 0; i < n; i++) EXPECT(make(&threads[i], sleep_for_good, i % 4 == 3) > 0);
  for (uint32_t now; (now = atomic_load(&count)) < (uint32_t)n;) futex(ABI_FUTEX_WAIT, &count, now);
}

static void return_late(struct thread* thread) {
  const struct timespec little = {0, 1000000 * thread->argument};
  STELE_CALL(nanosleep, ABI_CLOCK_MONOTONIC, 0, &little, 0);
}
static void all_threads_leave(void) {
  for (int i = 0; i < 8; i++) make(&threads[i], return_late, i);
  STELE_CALL(thread_exit);
}
static void make_and_make(struct thread* thread) {
  struct thread* const next = &threads[(thread - threads + 8) % kThreads];
  join(next);
  make(next, make_and_make, 0);
}
static void is_killed_while_it_makes(void) {
  for (int i = 0; i < 8; i++) make(&threads[i], make_and_make, 0);
  for (int i = 0; i < 100; i++) sched_yield();
  kill(getpid(), SIGKILL);
  for (;;) pause();
}

static void test_ends(void) {
  for (int round = 0; round < 4; round++) {
    int status = in_child_that(all_threads_leave);
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    status = in_child_that(is_killed_while_it_makes);
    EXPECT(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  }
}

static char* const kTrue[] = {"true", NULL};
static void execs(struct thread* thread) {
  (void)thread;
  STELE_CALL(execve, "/bin/true", kTrue, &kTrue[1]);
}
static void all_exec(void) {
  for (int i = 0; i < 8; i++) make(&threads[i], execs, 0);
  for (;;) pause();
}
static void fails_to_exec(void) {
  make_sleepers(2);
  EXPECT(execv("/none", kTrue) < 0 && errno == ENOENT);
  EXPECT(atomic_load(&threads[0].id) != 0);
}

static void test_exec(void) {
  for (int round = 0; round < 4; round++) {
    int status = in_child_that(all_exec);
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    status = in_child_that(fails_to_exec);
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
}

/* ---- Futexes. */

static void test_futex(void) {
  struct timespec at;
  clock_gettime(CLOCK_MONOTONIC, &at);
  EXPECT(STELE_CALL(futex, ABI_FUTEX_WAIT, &word, atomic_load(&word), ABI_CLOCK_MONOTONIC, &at) ==
         -ETIMEDOUT);
  clock_gettime(CLOCK_REALTIME, &at);
  at.tv_nsec += 5000000;
  at.tv_sec += at.tv_nsec / 1000000000;
  at.tv_nsec %= 1000000000;
  EXPECT(STELE_CALL(futex, ABI_FUTEX_WAIT, &word, atomic_load(&word), ABI_CLOCK_REALTIME, &at) ==
         -ETIMEDOUT);
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  EXPECT(now.tv_sec > at.tv_sec || (now.tv_sec == at.tv_sec && now.tv_nsec >= at.tv_nsec));
  EXPECT(futex(ABI_FUTEX_WAKE, &word, 5) == 0);
}

static void wait_once(struct thread* thread) {
  atomic_fetch_add(&count, 1);
  thread->argument = futex(ABI_FUTEX_WAIT, &word, 7);
  atomic_fetch_sub(&count, 1);
}
/* A wake wakes as many threads as requested, no more. */
static void test_wake_count(void) {
  atomic_store(&word, 7);
  atomic_store(&count, 0);
  for (int i = 0; i < 8; i++) make(&threads[i], wait_once, 0);
  long woken = 0;
  while (woken < 3) woken += futex(ABI_FUTEX_WAKE, &word, (uint32_t)(3 - woken));
  while (atomic_load(&count) > 5 || atomic_load(&count) == 0) sched_yield();
  while (woken < 8) woken += futex(ABI_FUTEX_WAKE, &word, (uint32_t)(8 - woken));
  for (int i = 0; i < 8; i++) {
    join(&threads[i]);
    EXPECT(threads[i].argument == 0);
  }
  EXPECT(woken == 8 && futex(ABI_FUTEX_WAKE, &word, 1) == 0);
}

/* ---- Signals. */

static void count_on(struct thread* thread) {
  (void)thread;
  for (;;) atomic_fetch_add(&count, 1);
}
static void runs_on(void) {
  for (int i = 0; i < 4; i++) make(&threads[i], count_on, 0);
  for (;;) pause();
}
/* Stops and continues a child with busy threads. Kills the child while it is stopped. */
static void test_stop(void) {
  fflush(stdout);
  const pid_t child = fork();
  if (child == 0) runs_on();
  int status;
  for (int round = 0; round < 10; round++) {
    EXPECT(kill(child, SIGSTOP) == 0);
    EXPECT(waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status));
    EXPECT(kill(child, SIGCONT) == 0);
    EXPECT(waitpid(child, &status, WCONTINUED) == child && WIFCONTINUED(status));
  }
  EXPECT(kill(child, SIGSTOP) == 0);
  EXPECT(waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status));
  EXPECT(kill(child, SIGKILL) == 0);
  EXPECT(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
}

/* ---- Shared state. */

static void change_directory(struct thread* thread) {
  for (int i = 0; i < 200; i++) {
    STELE_CALL(chdir, (thread->argument ? "/bin" : "/tmp"));
    const long fd = STELE_CALL(open, ABI_AT_FDCWD, ".", 0, 0);
    if (fd < 0 || STELE_CALL(close, fd) != 0) atomic_fetch_add(&word, 1);
  }
}
static void map_and_fault(struct thread* thread) {
  for (int i = 0; i < 200; i++) {
    char* const at = (char*)STELE_CALL(mmap, 0, 65536, ABI_PROT_READ | ABI_PROT_WRITE,
                                       ABI_MAP_PRIVATE | ABI_MAP_ANONYMOUS, -1);
    if ((long)at < 0 && (long)at > -4096) {
      atomic_fetch_add(&word, 1);
      continue;
    }
    for (int page = 0; page < 16; page++) at[page * 4096] = (char)(thread->argument + page);
    for (int page = 0; page < 16; page++) {
      if (at[page * 4096] != (char)(thread->argument + page)) atomic_fetch_add(&word, 1);
    }
    STELE_CALL(munmap, at, 65536);
  }
}
static char common[16 * 4096];
static void write_common(struct thread* thread) {
  for (int i = 0; i < 100; i++) {
    for (int page = 0; page < 16; page++)
      ((volatile char*)common)[page * 4096 + thread->argument]++;
    if (i % 10 == 0) {
      const long child = STELE_CALL(fork);
      if (child == 0) STELE_CALL(exit, 0);
      int status;
      while (STELE_CALL(wait4, child, &status, 0, 0) == -EINTR) continue;
    }
  }
}
static void test_shared(void) {
  atomic_store(&word, 0);
  for (int i = 0; i < 8; i++)
    make(&threads[i], i % 2 ? change_directory : map_and_fault, i / 2 % 2);
  for (int i = 0; i < 8; i++) join(&threads[i]);
  EXPECT(atomic_load(&word) == 0);
  EXPECT(chdir("/") == 0);
  /* Threads fork while others write to the same pages: copy-on-write loses no write. */
  memset(common, 0, sizeof common);
  for (int i = 0; i < 8; i++) make(&threads[i], write_common, i);
  for (int i = 0; i < 8; i++) join(&threads[i]);
  for (int i = 0; i < 8; i++) {
    for (int page = 0; page < 16; page++) EXPECT(common[page * 4096 + i] == 100);
  }
}

static void dup_and_close(struct thread* thread) {
  for (int i = 0; i < 300; i++) {
    const long fd = STELE_CALL(dup, 1);
    if (fd < 0 || STELE_CALL(close, fd) != 0) atomic_fetch_add(&word, 1);
  }
  (void)thread;
}
static void set_timers(struct thread* thread) {
  for (int i = 0; i < 100; i++) {
    const long id = STELE_CALL(timer_create, ABI_CLOCK_MONOTONIC, 0);
    if (id < 0) continue; /* the process has no timer left (EAGAIN) */
    struct abi_itimerspec soon = {{0, 0}, {1000, 0}};
    STELE_CALL(timer_settime, id, 0, &soon, 0);
    STELE_CALL(timer_delete, (id + thread->argument) % 8); /* this timer, or another thread's */
  }
}
static void test_tables(void) {
  atomic_store(&word, 0);
  for (int i = 0; i < 8; i++) make(&threads[i], i % 2 ? dup_and_close : set_timers, i / 4);
  for (int i = 0; i < 8; i++) join(&threads[i]);
  EXPECT(atomic_load(&word) == 0);
}

static const struct named_test tests[] = {
    {"create", test_create}, {"bad_arguments", test_bad_arguments},
    {"ends", test_ends},     {"exec", test_exec},
    {"futex", test_futex},   {"wake_count", test_wake_count},
    {"stop", test_stop},     {"shared", test_shared},
    {"tables", test_tables},
};

int main(int argc, char** argv) {
  return RUN_TESTS(tests, argc, argv);
}
