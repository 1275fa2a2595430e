/* Clocks and sleeping. */
#include <errno.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/times.h>
#include <time.h>
#include <unistd.h>

#include "syscall.h"

/* The kernel's clocks: 0 of the day, 1 since boot. newlib's numbers are others. */
int clock_gettime(clockid_t clock, struct timespec* time) {
  if (clock != CLOCK_REALTIME && clock != CLOCK_MONOTONIC) {
    errno = EINVAL;
    return -1;
  }
  return (int)SYSCALL2(clock_gettime, clock == CLOCK_MONOTONIC, time);
}

int clock_getres(clockid_t clock, struct timespec* resolution) {
  struct timespec now;
  if (clock_gettime(clock, &now) < 0) return -1;
  if (resolution != NULL) *resolution = (struct timespec){.tv_sec = 0, .tv_nsec = 1};
  return 0;
}

int clock_settime(clockid_t clock, const struct timespec* time) {
  (void)clock, (void)time;
  return (int)__stele_fail(EPERM, "the clock cannot be set");
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
  (void)time, (void)zone;
  return clock_settime(CLOCK_REALTIME, NULL);
}

int nanosleep(const struct timespec* time, struct timespec* left) {
  return (int)SYSCALL2(nanosleep, time, left);
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
  if (SYSCALL2(times, &self, &children) < 0 || clock_gettime(CLOCK_MONOTONIC, &now) < 0)
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
  struct abi_rusage self, children;
  if (SYSCALL2(times, &self, &children) < 0) return (clock_t)-1;
  return ticks_of(&self.user, CLOCKS_PER_SEC) + ticks_of(&self.system, CLOCKS_PER_SEC);
}
