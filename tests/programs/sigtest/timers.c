/* alarm, interval timers, POSIX timers. */
#include <sys/resource.h>
#include <sys/time.h>

#include "sigtest.h"

static volatile sig_atomic_t count;
static siginfo_t last;
static void record(int signal, siginfo_t* info, void* context) {
  (void)signal, (void)context;
  last = *info;
  count++;
}

static const struct itimerval off;

static int has_no_timers(void) {
  struct itimerval value;
  struct itimerspec spec;
  if (getitimer(ITIMER_REAL, &value) != 0 || timerisset(&value.it_value)) return 1;
  if (timer_gettime(0, &spec) != -1 || errno != EINVAL) return 2;
  return alarm(0) != 0;
}

/* exec keeps the alarm. It deletes POSIX timers and disables the alternate stack. */
int after_exec(void) {
  struct itimerval value;
  struct itimerspec spec;
  stack_t stack;
  if (getitimer(ITIMER_REAL, &value) != 0 || !timerisset(&value.it_value)) return 1;
  if (timer_gettime(0, &spec) != -1 || errno != EINVAL) return 2;
  if (sigaltstack(NULL, &stack) != 0 || stack.ss_flags != SS_DISABLE) return 3;
  return 0;
}

static int executes(void) {
  timer_t timer;
  static char bytes[SIGSTKSZ];
  stack_t stack = {.ss_sp = bytes, .ss_size = sizeof bytes};
  if (timer_create(CLOCK_MONOTONIC, NULL, &timer) != 0 || sigaltstack(&stack, NULL) != 0) return 10;
  struct itimerspec spec = {.it_value = {.tv_sec = 1000}};
  timer_settime(timer, 0, &spec, NULL);
  alarm(1000);
  execl("/bin/sigtest", program, "after_exec", (char*)NULL);
  return 11;
}

static int killed_by_alarm(void) {
  signal(SIGALRM, SIG_DFL);
  ualarm(5000, 0);
  return pause();
}

static void alarms(void) {
  handle(SIGALRM, record, 0);
  CHECK(alarm(100) == 0 && alarm(0) == 100 && alarm(0) == 0);
  count = 0;
  struct itimerval value = {.it_value = {.tv_sec = 100}}, old;
  CHECK(setitimer(ITIMER_REAL, &value, &old) == 0 && !timerisset(&old.it_value));
  CHECK(getitimer(ITIMER_REAL, &old) == 0 && timerisset(&old.it_value) &&
        old.it_value.tv_sec <= 100);
  value.it_value = (struct timeval){.tv_usec = 20000};
  CHECK(setitimer(ITIMER_REAL, &value, &old) == 0 && old.it_value.tv_sec > 0);
  while (count == 0) pause_ms(1);
  CHECK(count == 1 && getitimer(ITIMER_REAL, &old) == 0 && !timerisset(&old.it_value));
  value = (struct itimerval){.it_value = {.tv_usec = 1}, .it_interval = {.tv_usec = 5000}};
  CHECK(setitimer(ITIMER_REAL, &value, NULL) == 0);
  while (count < 5) pause_ms(1);
  CHECK(in_child(has_no_timers) == 0);
  CHECK(setitimer(ITIMER_REAL, &off, &old) == 0 && old.it_interval.tv_usec == 5000);
  value.it_value.tv_usec = 1000000;
  CHECK(setitimer(ITIMER_REAL, &value, NULL) == -1 && errno == EINVAL);
  CHECK(setitimer(3, &off, NULL) == -1 && errno == EINVAL);
  CHECK(getitimer(-1, &old) == -1 && errno == EINVAL);
  CHECK(in_child(executes) == 0);
  CHECK(in_child(killed_by_alarm) == SIGALRM);

  /* The alarm ends a sleep, but not a read with SA_RESTART. */
  int ends[2];
  char byte = 0;
  CHECK(pipe(ends) == 0);
  handle(SIGALRM, record, SA_RESTART);
  count = 0;
  value = (struct itimerval){.it_value = {.tv_usec = 1}, .it_interval = {.tv_usec = 5000}};
  pid_t child = fork();
  if (child == 0) {
    pause_ms(60);
    _exit(write(ends[1], "x", 1) != 1);
  }
  setitimer(ITIMER_REAL, &value, NULL);
  CHECK(read(ends[0], &byte, 1) == 1 && byte == 'x' && count > 0);
  CHECK(sleep(1000) > 0);
  setitimer(ITIMER_REAL, &off, NULL);
  CHECK(status_of(child) == 0);
  close(ends[0]);
  close(ends[1]);
}

/* Timers of processor time expire while the process computes, and not while it sleeps. */
static void processor_time(void) {
  static const int kinds[] = {ITIMER_VIRTUAL, ITIMER_PROF}, signals[] = {SIGVTALRM, SIGPROF};
  for (int i = 0; i < 2; i++) {
    handle(signals[i], record, 0);
    count = 0;
    struct itimerval value = {.it_value = {.tv_usec = 12000}, .it_interval = {.tv_usec = 4000}};
    CHECK(setitimer(kinds[i], &value, NULL) == 0);
    pause_ms(50);
    CHECK(count == 0);
    while (count < 2) continue;
    CHECK(last.si_signo == signals[i] && setitimer(kinds[i], &off, &value) == 0 &&
          value.it_interval.tv_usec == 4000);
  }
}

static void posix_timers(void) {
  timer_t timer, others[64];
  struct itimerspec spec, old;
  struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN + 3};
  event.sigev_value.sival_int = 1234;
  block(SIGRTMIN + 3);
  CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
  spec = (struct itimerspec){.it_value = {.tv_nsec = 1}, .it_interval = {.tv_nsec = 5000000}};
  CHECK(timer_settime(timer, 0, &spec, &old) == 0 && old.it_value.tv_nsec == 0);
  pause_ms(60);
  sigset_t set = only(SIGRTMIN + 3);
  siginfo_t info;
  CHECK(sigwaitinfo(&set, &info) == SIGRTMIN + 3 && info.si_code == SI_TIMER &&
        info.si_int == 1234 && info.si_timerid == (int)timer && info.si_overrun > 0);
  CHECK(timer_getoverrun(timer) == info.si_overrun);
  CHECK(timer_gettime(timer, &old) == 0 && old.it_interval.tv_nsec == 5000000 &&
        (old.it_value.tv_nsec > 0 || old.it_value.tv_sec > 0));
  CHECK(sigwaitinfo(&set, &info) == SIGRTMIN + 3 && info.si_int == 1234);
  /* A timer is deleted while its signal is pending. */
  pause_ms(15);
  CHECK(timer_delete(timer) == 0 && timer_delete(timer) == -1 && errno == EINVAL);
  sigset_t pending;
  CHECK(sigpending(&pending) == 0 && !sigismember(&pending, SIGRTMIN + 3));
  CHECK(timer_gettime(timer, &old) == -1 && errno == EINVAL);
  CHECK(timer_settime(timer, 0, &spec, NULL) == -1 && errno == EINVAL);
  unblock(SIGRTMIN + 3);

  /* Timers with an absolute time. A time in the past expires at once. */
  handle(SIGALRM, record, 0);
  clockid_t clocks[] = {CLOCK_REALTIME, CLOCK_MONOTONIC};
  for (int i = 0; i < 2; i++) {
    CHECK(timer_create(clocks[i], NULL, &timer) == 0);
    for (int ahead = 0; ahead < 2; ahead++) {
      count = 0;
      clock_gettime(clocks[i], &spec.it_value);
      spec.it_interval.tv_nsec = 0;
      if (ahead && (spec.it_value.tv_nsec += 20000000) >= 1000000000) {
        spec.it_value.tv_sec++;
        spec.it_value.tv_nsec -= 1000000000;
      }
      CHECK(timer_settime(timer, TIMER_ABSTIME, &spec, NULL) == 0);
      while (count == 0) pause_ms(1);
      CHECK(last.si_code == SI_TIMER && last.si_int == (int)timer);
    }
    CHECK(timer_delete(timer) == 0);
  }

  event.sigev_notify = SIGEV_NONE;
  CHECK(timer_create(CLOCK_REALTIME, &event, &timer) == 0);
  spec = (struct itimerspec){.it_value = {.tv_nsec = 1}};
  CHECK(timer_settime(timer, 0, &spec, NULL) == 0);
  pause_ms(10);
  CHECK(timer_gettime(timer, &old) == 0 && old.it_value.tv_nsec == 0 && old.it_value.tv_sec == 0);
  CHECK(timer_delete(timer) == 0);

  event.sigev_notify = SIGEV_THREAD;
  CHECK(timer_create(CLOCK_REALTIME, &event, &timer) == -1 && errno == ENOTSUP);
  event.sigev_notify = 9;
  CHECK(timer_create(CLOCK_REALTIME, &event, &timer) == -1 && errno == EINVAL);
  event = (struct sigevent){.sigev_notify = SIGEV_SIGNAL, .sigev_signo = 64};
  CHECK(timer_create(CLOCK_REALTIME, &event, &timer) == -1 && errno == EINVAL);
  CHECK(timer_create(99, NULL, &timer) == -1 && errno == EINVAL);
  CHECK(timer_create(CLOCK_PROCESS_CPUTIME_ID, NULL, &timer) == -1 && errno == ENOTSUP);
  int made = 0;
  while (made < 64 && timer_create(CLOCK_MONOTONIC, NULL, &others[made]) == 0) made++;
  CHECK(errno == EAGAIN && made == sysconf(_SC_TIMER_MAX));
  spec = (struct itimerspec){.it_value = {.tv_nsec = 1}, .it_interval = {.tv_nsec = 1}};
  for (int i = 0; i < made; i++) timer_settime(others[i], 0, &spec, NULL);
  pause_ms(20);
  for (int i = 0; i < made; i++) CHECK(timer_delete(others[i]) == 0);
}

/* Creates timers in many processes of a user, until no process can create another one. Returns 0
 * if the user has got 512 of them, and one process 32. */
static int creates_many(void) {
  enum { PROCESSES = 20 };
  int told[2], held[2], total = 0;
  if (pipe(told) < 0 || pipe(held) < 0) return 1;
  for (int i = 0; i < PROCESSES; i++) {
    if (fork() != 0) continue;
    timer_t timer;
    char made = 0, byte;
    close(held[1]);
    while (made < 100 && timer_create(CLOCK_MONOTONIC, NULL, &timer) == 0) made++;
    if (errno != EAGAIN) made = 100;
    write(told[1], &made, 1);
    _exit(read(held[0], &byte, 1) != 0); /* the timers live until the parent has counted */
  }
  for (int i = 0; i < PROCESSES; i++) {
    char made = 0;
    if (read(told[0], &made, 1) != 1 || made > 32) return 2;
    total += made;
  }
  close(held[1]);
  for (int i = 0; i < PROCESSES; i++) wait(NULL);
  return total == 512 ? 0 : 3;
}

/* The real user counts, also if the program has root's rights. */
static int creates_many_with_roots_rights(void) {
  return setresuid(65534, 0, 0) != 0 || creates_many();
}

/* Repeating timers without a signal, and timers whose signal is pending. */
static void resting_timers(void) {
  timer_t timer;
  struct itimerspec spec = {.it_value = {.tv_nsec = 1}, .it_interval = {.tv_nsec = 20000000}}, now;
  struct sigevent event = {.sigev_notify = SIGEV_NONE};
  CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
  CHECK(timer_settime(timer, 0, &spec, NULL) == 0);
  pause_ms(50);
  CHECK(timer_gettime(timer, &now) == 0 && now.it_value.tv_sec == 0 && now.it_value.tv_nsec > 0 &&
        now.it_value.tv_nsec <= 20000000 && now.it_interval.tv_nsec == 20000000);
  CHECK(timer_delete(timer) == 0);
  /* While the signal is pending, only the count of overruns shows the expirations. */
  event = (struct sigevent){.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN + 3};
  block(SIGRTMIN + 3);
  sigset_t set = only(SIGRTMIN + 3);
  siginfo_t info;
  CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
  spec.it_interval.tv_nsec = 1000;
  CHECK(timer_settime(timer, 0, &spec, NULL) == 0);
  pause_ms(30);
  CHECK(timer_gettime(timer, &now) == 0 && now.it_value.tv_nsec > 0 &&
        now.it_value.tv_nsec <= 1000);
  CHECK(sigwaitinfo(&set, &info) == SIGRTMIN + 3 && info.si_overrun >= 20000);
  CHECK(sigwaitinfo(&set, &info) == SIGRTMIN + 3); /* the timer goes on */
  /* A signal that is discarded while it is pending lets the timer go on, too. */
  pause_ms(10);
  signal(SIGRTMIN + 3, SIG_IGN);
  signal(SIGRTMIN + 3, SIG_DFL);
  CHECK(sigwaitinfo(&set, &info) == SIGRTMIN + 3 && timer_delete(timer) == 0);
  unblock(SIGRTMIN + 3);
}

/* Ends, or is killed by its parent, while its timers expire as often as possible. */
static int ends_with_timers(void) {
  timer_t timer;
  struct itimerspec spec = {.it_value = {.tv_nsec = 1}, .it_interval = {.tv_nsec = 1}};
  struct itimerval value = {.it_value = {.tv_usec = 1}, .it_interval = {.tv_usec = 1}};
  signal(SIGALRM, SIG_IGN);
  block(SIGRTMIN);
  struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN};
  for (int i = 0; i < 8; i++) {
    timer_create(CLOCK_MONOTONIC, &event, &timer);
    timer_settime(timer, 0, &spec, NULL);
  }
  union sigval none = {0};
  for (int i = 0; i < 8; i++) sigqueue(getpid(), SIGRTMIN, none);
  setitimer(ITIMER_REAL, &value, NULL);
  pause_ms(5);
  return 0;
}

void test_timers(void) {
  alarms();
  processor_time();
  posix_timers();
  resting_timers();
  CHECK(as_nobody(creates_many) == 0);
  CHECK(in_child(creates_many_with_roots_rights) == 0);
  pid_t children[20];
  for (int i = 0; i < 20; i++) children[i] = start_child(ends_with_timers);
  pause_ms(5);
  for (int i = 0; i < 20; i += 2) kill(children[i], SIGKILL);
  for (int i = 0; i < 20; i++) {
    int status = status_of(children[i]);
    CHECK(status == 0 || (i % 2 == 0 && status == SIGKILL));
  }
  signal(SIGALRM, SIG_DFL);
  signal(SIGVTALRM, SIG_DFL);
  signal(SIGPROF, SIG_DFL);
}
