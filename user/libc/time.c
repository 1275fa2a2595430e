/* Clocks and sleeping. */
#include <errno.h>
#include <sys/time.h>
#include <sys/times.h>
#include <time.h>
#include <unistd.h>

#include "cancel.h"

int clock_gettime(clockid_t clock, struct timespec* time) {
  return (int)SYSCALL(clock_gettime, clock, time, NULL);
}
int clock_getres(clockid_t clock, struct timespec* resolution) {
  return (int)SYSCALL(clock_gettime, clock, NULL, resolution);
}
int clock_settime(clockid_t clock, const struct timespec* time) {
  return (int)SYSCALL(clock_settime, clock, time);
}

int clock_getcpuclockid(pid_t pid, clockid_t* clock) {
  if (pid != 0 && pid != getpid()) return ESRCH;
  *clock = CLOCK_PROCESS_CPUTIME_ID;
  return 0;
}

int gettimeofday(struct timeval* time, void* zone) {
  (void)zone;
  struct timespec now;
  if (clock_gettime(CLOCK_REALTIME, &now) < 0) return -1;
  time->tv_sec = now.tv_sec;
  time->tv_usec = now.tv_nsec / 1000;
  return 0;
}

int settimeofday(const struct timeval* time, const struct timezone* zone) {
  (void)zone;
  if (time == NULL) return 0;
  struct timespec now = {.tv_sec = time->tv_sec, .tv_nsec = time->tv_usec * 1000};
  return clock_settime(CLOCK_REALTIME, &now);
}

/* Returns an error number, and leaves errno unchanged. */
int clock_nanosleep(clockid_t clock, int flags, const struct timespec* time,
                    struct timespec* left) {
  long result = cancellable6(ABI_SYS_nanosleep, clock, flags, (long)time, (long)left, 0, 0);
  return (int)-result;
}

int nanosleep(const struct timespec* time, struct timespec* left) {
  return (int)CANCELLABLE4(nanosleep, CLOCK_MONOTONIC, 0, time, left);
}

unsigned sleep(unsigned seconds) {
  struct timespec time = {.tv_sec = seconds};
  return nanosleep(&time, &time) < 0 ? (unsigned)time.tv_sec + (time.tv_nsec > 0) : 0;
}

int usleep(useconds_t microseconds) {
  struct timespec time = {.tv_sec = (time_t)(microseconds / 1000000),
                          .tv_nsec = (long)(microseconds % 1000000) * 1000};
  return nanosleep(&time, NULL);
}

static clock_t ticks_of(const struct abi_timespec* time, long per_second) {
  return (clock_t)(time->sec * per_second + time->nsec / (1000000000 / per_second));
}

clock_t times(struct tms* result) {
  struct abi_rusage self, children;
  struct timespec now;
  if (SYSCALL(times, &self, &children) < 0 || clock_gettime(CLOCK_MONOTONIC, &now) < 0)
    return (clock_t)-1;
  long per_second = sysconf(_SC_CLK_TCK);
  result->tms_utime = ticks_of(&self.user, per_second);
  result->tms_stime = ticks_of(&self.system, per_second);
  result->tms_cutime = ticks_of(&children.user, per_second);
  result->tms_cstime = ticks_of(&children.system, per_second);
  struct abi_timespec since_boot = {.sec = now.tv_sec, .nsec = now.tv_nsec};
  return ticks_of(&since_boot, per_second);
}

clock_t clock(void) {
  struct abi_rusage self;
  if (SYSCALL(times, &self, NULL) < 0) return (clock_t)-1;
  return ticks_of(&self.user, CLOCKS_PER_SEC) + ticks_of(&self.system, CLOCKS_PER_SEC);
}

time_t timelocal(struct tm* calendar) {
  return mktime(calendar);
}

int timespec_get(struct timespec* time, int base) {
  return base == TIME_UTC && clock_gettime(CLOCK_REALTIME, time) == 0 ? base : 0;
}
