/* Signals of threads: each thread has a mask. A signal to a thread reaches that thread; a signal to
 * the process reaches one of its threads. */
#include <setjmp.h>
#include <sys/time.h>

#include "threadtest.h"

enum { THREADS = 8 };

static _Thread_local int handled;
static atomic_int handled_in_all;
static void count(int signal) {
  (void)signal;
  handled++;
  atomic_fetch_add(&handled_in_all, 1);
}

static sem_t ready;
static void wait_on(sem_t* semaphore) {
  while (sem_wait(semaphore) != 0) continue;
}

/* Each thread has its own mask. A new thread inherits the mask of the thread that makes it. */
static void* look_at_mask(void* argument) {
  sigset_t set;
  (void)argument;
  EXPECT(pthread_sigmask(SIG_SETMASK, NULL, &set) == 0);
  return (void*)(long)(sigismember(&set, SIGUSR1) << 1 | sigismember(&set, SIGUSR2));
}
static void* unblock_its_own(void* argument) {
  sigset_t set = only(SIGUSR1);
  (void)argument;
  EXPECT(pthread_sigmask(SIG_UNBLOCK, &set, NULL) == 0);
  return look_at_mask(NULL);
}

/* Several threads take queued signals at once. Each signal has a number, and each number must be
 * taken once. */
static atomic_int taken[64];
static void* take_by_sigwait(void* argument) {
  sigset_t set = only(SIGRTMIN);
  sigaddset(&set, SIGTERM);
  siginfo_t info;
  for (;;) {
    const int signal = sigwaitinfo(&set, &info);
    if (signal == SIGTERM) return argument;
    if (signal == SIGRTMIN && info.si_value.sival_int >= 0 && info.si_value.sival_int < 64)
      atomic_fetch_add(&taken[info.si_value.sival_int], 1);
  }
}

static void* interrupted_read(void* argument) {
  char byte;
  sem_post(&ready);
  const long got = read(*(int*)argument, &byte, 1);
  return (void*)(long)(got < 0 ? errno : 0);
}

static _Thread_local sigjmp_buf back;
static void jump(int signal) {
  siglongjmp(back, signal);
}
static void* fault_and_jump(void* argument) {
  volatile long faults = 0;
  for (volatile int i = 0; i < 50; i++) {
    if (sigsetjmp(back, 1) == 0)
      *(volatile int*)argument = 1;
    else
      faults++;
  }
  return (void*)faults;
}

static void* on_own_stack(void* argument) {
  static _Thread_local char stack[16384];
  const stack_t mine = {.ss_sp = stack, .ss_size = sizeof stack};
  stack_t seen;
  EXPECT(sigaltstack(NULL, &seen) == 0 && (seen.ss_flags & SS_DISABLE)); /* not inherited */
  EXPECT(sigaltstack(&mine, NULL) == 0);
  raise(SIGUSR2);
  return argument;
}
static atomic_int right_stack;
static void which_stack(int signal) {
  stack_t seen;
  char here;
  (void)signal;
  sigaltstack(NULL, &seen);
  if ((seen.ss_flags & SS_ONSTACK) && &here > (char*)seen.ss_sp &&
      &here < (char*)seen.ss_sp + seen.ss_size)
    atomic_fetch_add(&right_stack, 1);
}

static void* kills_the_process(void* argument) {
  raise(SIGKILL);
  return argument;
}
static int killed_by_a_thread(void) {
  begin(kills_the_process, NULL);
  for (;;) pause();
  return 1;
}
static void* aborts(void* argument) {
  abort();
  return argument;
}
static int aborted_by_a_thread(void) {
  begin(aborts, NULL);
  for (;;) pause();
  return 1;
}

void test_signals(void) {
  sem_init(&ready, 0, 0);
  struct sigaction action = {.sa_handler = count}, old;
  EXPECT(sigaction(SIGUSR1, &action, &old) == 0);

  pthread_t threads[THREADS];
  EXPECT(raise(SIGUSR1) == 0 && handled == 1);
  EXPECT(pthread_kill(pthread_self(), SIGUSR1) == 0 && handled == 2);
  EXPECT(pthread_kill(pthread_self(), 0) == 0 && pthread_kill(pthread_self(), -1) == EINVAL &&
         pthread_kill(pthread_self(), 63) == EINVAL && raise(63) == -1 && errno == EINVAL);

  sigset_t set = only(SIGUSR1), before;
  EXPECT(pthread_sigmask(SIG_BLOCK, &set, &before) == 0 && !sigismember(&before, SIGUSR1));
  EXPECT(join(begin(look_at_mask, NULL)) == (void*)2);
  EXPECT(join(begin(unblock_its_own, NULL)) == (void*)0);
  EXPECT(join(begin(look_at_mask, NULL)) == (void*)2);
  EXPECT(pthread_sigmask(77, &set, NULL) == EINVAL);
  /* All threads block a signal to the process, so the signal stays pending until a thread unblocks
   * it. */
  atomic_store(&handled_in_all, 0);
  sigset_t pending;
  EXPECT(kill(getpid(), SIGUSR1) == 0 && sigpending(&pending) == 0 &&
         sigismember(&pending, SIGUSR1));
  join(begin(unblock_its_own, NULL));
  EXPECT(atomic_load(&handled_in_all) == 1 && sigpending(&pending) == 0 &&
         !sigismember(&pending, SIGUSR1));
  /* A signal to this thread is taken by no other thread. */
  EXPECT(pthread_kill(pthread_self(), SIGUSR1) == 0);
  join(begin(unblock_its_own, NULL));
  EXPECT(atomic_load(&handled_in_all) == 1);
  EXPECT(pthread_sigmask(SIG_SETMASK, &before, NULL) == 0 && handled == 3);

  set = only(SIGRTMIN);
  sigaddset(&set, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &set, &before);
  for (int i = 0; i < THREADS; i++) threads[i] = begin(take_by_sigwait, NULL);
  for (int i = 0; i < 64; i++) {
    const union sigval value = {.sival_int = i};
    while (sigqueue(getpid(), SIGRTMIN, value) == -1 && errno == EAGAIN) sched_yield();
  }
  int all;
  do { /* until each signal is taken */
    all = 0;
    for (int i = 0; i < 64; i++) all += atomic_load(&taken[i]) == 1;
    sched_yield();
  } while (all < 64);
  for (int i = 0; i < THREADS; i++) EXPECT(pthread_kill(threads[i], SIGTERM) == 0);
  for (int i = 0; i < THREADS; i++) join(threads[i]);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  EXPECT(all == 64);

  /* Without SA_RESTART, a handler interrupts the system call of the thread that runs it. */
  int ends[2];
  EXPECT(pipe(ends) == 0);
  pthread_t thread = begin(interrupted_read, &ends[0]);
  wait_on(&ready);
  void* result = NULL;
  struct timespec soon;
  do {
    pthread_kill(thread, SIGUSR1);
    soon = in_ms(CLOCK_REALTIME, 1);
  } while (pthread_timedjoin_np(thread, &result, &soon) == ETIMEDOUT);
  EXPECT(result == (void*)EINTR);
  close(ends[0]);
  close(ends[1]);

  signal(SIGSEGV, jump);
  for (int i = 0; i < THREADS; i++) threads[i] = begin(fault_and_jump, (void*)8);
  long right = 0;
  for (int i = 0; i < THREADS; i++) right += (long)join(threads[i]);
  EXPECT(right == 50 * THREADS);
  signal(SIGSEGV, SIG_DFL);

  struct sigaction on_stack = {.sa_handler = which_stack, .sa_flags = SA_ONSTACK};
  sigaction(SIGUSR2, &on_stack, NULL);
  for (int i = 0; i < THREADS; i++) threads[i] = begin(on_own_stack, NULL);
  for (int i = 0; i < THREADS; i++) join(threads[i]);
  EXPECT(atomic_load(&right_stack) == THREADS);
  signal(SIGUSR2, SIG_DFL);
  sigaction(SIGUSR1, &old, NULL);

  sigset_t full;
  sigfillset(&full);
  EXPECT(sigismember(&full, SIGRTMAX) == 1 && sigismember(&full, SIGRTMAX + 1) == -1 &&
         sigaction(SIGRTMAX + 1, NULL, &old) == -1 && errno == EINVAL);
  int status = in_child(killed_by_a_thread);
  EXPECT(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  status = in_child(aborted_by_a_thread);
  EXPECT(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}
