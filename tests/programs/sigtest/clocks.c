/* Clocks: reading them, setting them, and sleeping until a time. */
#include <sys/time.h>
#include <sys/times.h>

#include "sigtest.h"

static void nothing(int signal, siginfo_t* info, void* context) {
  (void)signal, (void)info, (void)context;
}

static int sleeps_for_hours(void) {
  struct timespec time;
  clock_gettime(CLOCK_REALTIME, &time);
  time.tv_sec += 5000;
  return clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &time, NULL);
}

static int may_not_set(void) {
  struct timespec time;
  clock_gettime(CLOCK_REALTIME, &time);
  struct timeval day = {.tv_sec = time.tv_sec};
  return !(clock_settime(CLOCK_REALTIME, &time) == -1 && errno == EPERM &&
           settimeofday(&day, NULL) == -1 && errno == EPERM);
}

static int signals_parent_soon(void) {
  pause_ms(20);
  return kill(getppid(), SIGUSR1);
}

void test_clocks(void) {
  struct timespec time, left, resolution;
  clockid_t clock;
  CHECK(clock_getres(CLOCK_MONOTONIC, &resolution) == 0 && resolution.tv_sec == 0 &&
        resolution.tv_nsec == 1);
  CHECK(clock_getres(CLOCK_REALTIME, NULL) == 0);
  CHECK(clock_getres(99, &resolution) == -1 && errno == EINVAL);
  CHECK(clock_getcpuclockid(0, &clock) == 0 && clock == CLOCK_PROCESS_CPUTIME_ID);
  CHECK(clock_getcpuclockid(1, &clock) == ESRCH);
  CHECK(clock_getres(clock, &resolution) == 0 && resolution.tv_nsec == 1);
  struct timespec before, after;
  clock_gettime(clock, &before);
  do {
    clock_gettime(clock, &after);
  } while (after.tv_sec == before.tv_sec && after.tv_nsec < before.tv_nsec + 20000000);
  struct tms ticks;
  CHECK(times(&ticks) > 0 && ticks.tms_utime + ticks.tms_stime > 0);

  errno = 0;
  time = (struct timespec){.tv_nsec = 1000000000};
  CHECK(clock_nanosleep(CLOCK_MONOTONIC, 0, &time, NULL) == EINVAL && errno == 0);
  time = (struct timespec){.tv_sec = -1};
  CHECK(clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &time, NULL) == EINVAL);
  CHECK(clock_nanosleep(CLOCK_PROCESS_CPUTIME_ID, 0, &time, NULL) == EINVAL);
  clock_gettime(CLOCK_MONOTONIC, &time);
  CHECK(clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL) == 0);
  time.tv_nsec += 10000000;
  if (time.tv_nsec >= 1000000000) time.tv_nsec -= 1000000000, time.tv_sec++;
  CHECK(clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL) == 0);
  clock_gettime(CLOCK_MONOTONIC, &after);
  CHECK(after.tv_sec > time.tv_sec ||
        (after.tv_sec == time.tv_sec && after.tv_nsec >= time.tv_nsec));
  handle(SIGUSR1, nothing, SA_RESTART);
  pid_t child = start_child(signals_parent_soon);
  time = (struct timespec){.tv_sec = 1000};
  CHECK(clock_nanosleep(CLOCK_REALTIME, 0, &time, &left) == EINTR && left.tv_sec >= 900);
  CHECK(status_of(child) == 0);
  signal(SIGUSR1, SIG_DFL);

  /* The child sleeps until a given date. The sleep must end when the clock is set past this date.
   */
  child = start_child(sleeps_for_hours);
  pause_ms(30);
  CHECK(waitpid(child, NULL, WNOHANG) == 0);
  clock_gettime(CLOCK_REALTIME, &time);
  time.tv_sec += 6000;
  CHECK(clock_settime(CLOCK_REALTIME, &time) == 0);
  CHECK(status_of(child) == 0);
  clock_gettime(CLOCK_REALTIME, &after);
  CHECK(after.tv_sec >= time.tv_sec && after.tv_sec < time.tv_sec + 100);
  struct timeval day = {.tv_sec = after.tv_sec - 6000};
  CHECK(settimeofday(&day, NULL) == 0 && gettimeofday(&day, NULL) == 0 &&
        day.tv_sec < after.tv_sec - 5000);
  CHECK(clock_settime(CLOCK_MONOTONIC, &time) == -1 && errno == EINVAL);
  time.tv_nsec = -1;
  CHECK(clock_settime(CLOCK_REALTIME, &time) == -1 && errno == EINVAL);
  CHECK(as_nobody(may_not_set) == 0);
}
