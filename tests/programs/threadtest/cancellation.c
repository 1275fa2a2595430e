/* Cancellation before, during and after a wait. The activity `cancels` of stress has other kinds of
 * waits. */
#include <fcntl.h>

#include "threadtest.h"

static sem_t ready;
static int ends[2], full_ends[2];
static atomic_int cleaned;
static int signal_pipe[2];

static void clean(void* argument) {
  atomic_fetch_add(&cleaned, (int)(long)argument);
}
/* Each function waits forever in a cancellation point. */
static void in_read(void) {
  char byte;
  read(ends[0], &byte, 1);
}
static void in_write(void) {
  static char many[65536];
  for (;;) write(full_ends[1], many, sizeof many);
}
static void in_nanosleep(void) {
  const struct timespec far = {.tv_sec = 3600};
  clock_nanosleep(CLOCK_MONOTONIC, 0, &far, NULL);
}
static void in_sigwait(void) {
  sigset_t set;
  int signal;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR2);
  pthread_sigmask(SIG_BLOCK, &set, NULL);
  sigwait(&set, &signal);
}
static void in_wait(void) {
  for (;;) waitpid(-1, NULL, 0);
}
static void in_loop(void) {
  for (;;) pthread_testcancel();
}
static void (*const waits[])(void) = {in_read,    in_write, in_nanosleep,
                                      in_sigwait, in_wait,  in_loop};
enum { WAITS = sizeof waits / sizeof *waits };

static void* wait_for_ever(void* which) {
  pthread_cleanup_push(clean, (void*)1);
  sem_post(&ready);
  waits[(long)which]();
  pthread_cleanup_pop(0);
  return NULL;
}

static void* sleep_for_ever(void* argument) {
  for (;;) sleep(3600);
  return argument;
}

/* Makes threads for each kind of wait, and cancels each thread after it is ready. In some rounds,
 * the caller yields the CPU a few times before it cancels. */
static void cancel_each(int rounds) {
  for (long which = 0; which < WAITS; which++) {
    for (int round = 0; round < rounds; round++) {
      atomic_store(&cleaned, 0);
      pthread_t thread = begin(wait_for_ever, (void*)which);
      while (sem_wait(&ready) != 0) continue;
      for (int i = 0; i < round % 5 * 3; i++) sched_yield();
      EXPECT(pthread_cancel(thread) == 0);
      EXPECT(join(thread) == PTHREAD_CANCELED);
      EXPECT(atomic_load(&cleaned) == 1);
    }
  }
}

static void* not_while_disabled(void* argument) {
  int old = -1;
  EXPECT(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old) == 0 && old == PTHREAD_CANCEL_ENABLE);
  EXPECT(pthread_setcancelstate(9, NULL) == EINVAL && pthread_setcanceltype(9, NULL) == EINVAL);
  sem_post(&ready);
  char byte = 0;
  const struct timespec moment = {.tv_nsec = 30000000};
  EXPECT(nanosleep(&moment, NULL) == 0); /* the sleep is not interrupted */
  EXPECT(read(ends[0], &byte, 1) == 1 &&
         byte == 'x'); /* the byte was sent after the cancellation */
  pthread_testcancel();
  atomic_store(&cleaned, 100);
  EXPECT(pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &old) == 0 && old == PTHREAD_CANCEL_DISABLE);
  pthread_testcancel();
  return argument;
}

static void* cancel_oneself(void* argument) {
  pthread_cleanup_push(clean, (void*)1);
  pthread_cleanup_push(clean, (void*)20);
  pthread_cleanup_push(clean, (void*)300);
  pthread_cleanup_pop(1);
  EXPECT(pthread_cancel(pthread_self()) == 0);
  EXPECT(atomic_load(&cleaned) == 300);
  pthread_testcancel();
  pthread_cleanup_pop(0);
  pthread_cleanup_pop(0);
  return argument;
}

/* Cancellation loses no byte that was read: as many bytes come out as went in. */
static atomic_int bytes_read;
static void* read_bytes(void* argument) {
  char byte;
  for (;;) {
    if (read(signal_pipe[0], &byte, 1) == 1) atomic_fetch_add(&bytes_read, 1);
  }
  return argument;
}

/* The cancellation comes while a handler of another signal runs in the cancellation point. */
static atomic_int in_handler, leave_handler;
static void stay(int signal) {
  (void)signal;
  atomic_store(&in_handler, 1);
  while (!atomic_load(&leave_handler)) sched_yield();
}
static void* wait_with_handler(void* argument) {
  sem_post(&ready);
  in_read();
  return argument;
}

/* A thread makes a second thread while the cancellation of the first one is pending. The first
 * thread must still be able to cancel the second one. */
static atomic_int is_cancelled;
static void* cancel_its_own(void* argument) {
  while (!atomic_load(&is_cancelled)) sched_yield();
  sched_yield(); /* the signal of the cancellation arrives here at the latest */
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
  const pthread_t thread = begin(sleep_for_ever, NULL);
  const struct timespec until_it_sleeps = {.tv_nsec = 20000000};
  nanosleep(&until_it_sleeps, NULL);
  EXPECT(pthread_cancel(thread) == 0 && join(thread) == PTHREAD_CANCELED);
  pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
  pthread_testcancel();
  return argument;
}

static void close_stream(void* stream) {
  fclose(stream);
}
static void* uses_streams(void* argument) {
  FILE* null = fopen("/dev/null", "w");
  pthread_cleanup_push(close_stream, null);
  sem_post(&ready);
  for (;;) {
    fprintf(null, "%d %s\n", 1, "a line");
    fflush(null);
    pthread_testcancel();
  }
  pthread_cleanup_pop(1);
  return argument;
}

void test_cancellation(void) {
  sem_init(&ready, 0, 0);
  EXPECT(pipe(ends) == 0 && pipe(full_ends) == 0 && pipe(signal_pipe) == 0);
  const pid_t child = fork();
  if (child == 0) {
    for (;;) pause();
  }
  cancel_each(10);
  kill(child, SIGKILL);
  EXPECT(waitpid(child, NULL, 0) == child);

  pthread_t thread = begin(not_while_disabled, NULL);
  while (sem_wait(&ready) != 0) continue;
  EXPECT(pthread_cancel(thread) == 0 && write(ends[1], "x", 1) == 1);
  EXPECT(join(thread) == PTHREAD_CANCELED && atomic_load(&cleaned) == 100);

  atomic_store(&cleaned, 0);
  EXPECT(join(begin(cancel_oneself, NULL)) == PTHREAD_CANCELED && atomic_load(&cleaned) == 321);

  int written = 0;
  for (int i = 0; i < 200; i++) {
    thread = begin(read_bytes, NULL);
    EXPECT(write(signal_pipe[1], "y", 1) == 1);
    written++;
    for (int turn = 0; turn < i % 4; turn++) sched_yield();
    pthread_cancel(thread);
    EXPECT(join(thread) == PTHREAD_CANCELED);
  }
  fcntl(signal_pipe[0], F_SETFL, O_NONBLOCK);
  char byte;
  while (read(signal_pipe[0], &byte, 1) == 1) bytes_read++;
  EXPECT(atomic_load(&bytes_read) == written);

  signal(SIGUSR1, stay);
  thread = begin(wait_with_handler, NULL);
  while (sem_wait(&ready) != 0) continue;
  EXPECT(pthread_kill(thread, SIGUSR1) == 0);
  while (!atomic_load(&in_handler)) sched_yield();
  EXPECT(pthread_cancel(thread) == 0);
  atomic_store(&leave_handler, 1);
  EXPECT(join(thread) == PTHREAD_CANCELED);
  signal(SIGUSR1, SIG_DFL);

  thread = begin(cancel_its_own, NULL);
  EXPECT(pthread_cancel(thread) == 0);
  atomic_store(&is_cancelled, 1);
  EXPECT(join(thread) == PTHREAD_CANCELED);

  for (int i = 0; i < 20; i++) {
    thread = begin(uses_streams, NULL);
    while (sem_wait(&ready) != 0) continue;
    pthread_cancel(thread);
    EXPECT(join(thread) == PTHREAD_CANCELED);
  }
  EXPECT(pthread_cancel(begin(sleep_for_ever, NULL)) == 0);
  close(ends[0]);
  close(ends[1]);
  close(full_ends[0]);
  close(full_ends[1]);
  close(signal_pipe[0]);
  close(signal_pipe[1]);
}
