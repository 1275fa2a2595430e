/* Timers: alarm, setitimer and POSIX timers. */
#include <errno.h>
#include <signal.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "syscall.h"

static struct abi_timespec timespec_of(const struct timeval* time) {
  return (struct abi_timespec){.sec = time->tv_sec, .nsec = time->tv_usec * 1000};
}

/* Rounds up, so that remaining time never becomes zero. */
static struct timeval timeval_of(const struct abi_timespec* time) {
  long microseconds = (time->nsec + 999) / 1000;
  return (struct timeval){.tv_sec = time->sec + microseconds / 1000000,
                          .tv_usec = microseconds % 1000000};
}

int setitimer(int which, const struct itimerval* restrict value, struct itimerval* restrict old) {
  struct abi_itimerspec to, from;
  if (value != NULL) {
    if (value->it_value.tv_usec >= 1000000 || value->it_interval.tv_usec >= 1000000) {
      errno = EINVAL;
      return -1;
    }
    to = (struct abi_itimerspec){.interval = timespec_of(&value->it_interval),
                                 .value = timespec_of(&value->it_value)};
  }
  if (SYSCALL(setitimer, which, value != NULL ? &to : NULL, &from) < 0) return -1;
  if (old != NULL) {
    old->it_interval = timeval_of(&from.interval);
    old->it_value = timeval_of(&from.value);
  }
  return 0;
}

int getitimer(int which, struct itimerval* value) {
  return setitimer(which, NULL, value);
}

unsigned alarm(unsigned seconds) {
  struct itimerval value = {.it_value = {.tv_sec = seconds}}, old;
  if (setitimer(ITIMER_REAL, &value, &old) < 0) return 0;
  /* Rounds to the nearest second, but not to 0 while time is left. */
  unsigned left = (unsigned)old.it_value.tv_sec + (old.it_value.tv_usec >= 500000);
  return left == 0 && old.it_value.tv_usec > 0 ? 1 : left;
}

useconds_t ualarm(useconds_t microseconds, useconds_t interval) {
  struct itimerval value = {
      .it_value = {.tv_sec = microseconds / 1000000, .tv_usec = microseconds % 1000000},
      .it_interval = {.tv_sec = interval / 1000000, .tv_usec = interval % 1000000}};
  struct itimerval old;
  if (setitimer(ITIMER_REAL, &value, &old) < 0) return (useconds_t)-1;
  return (useconds_t)(old.it_value.tv_sec * 1000000 + old.it_value.tv_usec);
}

int timer_create(clockid_t clock, struct sigevent* restrict event, timer_t* restrict timer) {
  struct abi_sigevent abi;
  if (event != NULL) {
    abi = (struct abi_sigevent){.notify = event->sigev_notify,
                                .signal = event->sigev_signo,
                                .value = (uint64_t)event->sigev_value.sival_ptr};
  }
  long id = SYSCALL(timer_create, clock, event != NULL ? &abi : NULL);
  if (id < 0) return -1;
  *timer = (timer_t)id;
  return 0;
}

int timer_settime(timer_t timer, int flags, const struct itimerspec* restrict value,
                  struct itimerspec* restrict old) {
  return (int)SYSCALL(timer_settime, timer, flags, value, old);
}
int timer_gettime(timer_t timer, struct itimerspec* value) {
  return (int)SYSCALL(timer_gettime, timer, value);
}
int timer_getoverrun(timer_t timer) {
  return (int)SYSCALL(timer_overrun, timer);
}
int timer_delete(timer_t timer) {
  return (int)SYSCALL(timer_delete, timer);
}
