/* Scheduling: there is one policy, and its only priority is 0. */
#include <sched.h>

#include <errno.h>
#include <pthread.h>
#include <signal.h>

#include "syscall.h"

int sched_yield(void) {
  return (int)SYSCALL(yield);
}
int pthread_yield(void) {
  return sched_yield();
}

static int fail(int error) {
  errno = error;
  return -1;
}
static int is_policy(int policy) {
  return policy == SCHED_OTHER || policy == SCHED_FIFO || policy == SCHED_RR;
}
int sched_get_priority_max(int policy) {
  return is_policy(policy) ? 0 : fail(EINVAL);
}
int sched_get_priority_min(int policy) {
  return is_policy(policy) ? 0 : fail(EINVAL);
}

/* Returns 0 if the process exists, otherwise -1. */
static int find(pid_t pid) {
  return pid == 0 || kill(pid, 0) == 0 || errno == EPERM ? 0 : -1;
}
/* Returns 0, EINVAL if the priority is not 0 or POSIX does not define the policy, or EPERM for
 * SCHED_FIFO and SCHED_RR, which this system does not have. */
static int check(int policy, const struct sched_param* parameters) {
  if (!is_policy(policy) || parameters->sched_priority != 0) return EINVAL;
  return policy == SCHED_OTHER ? 0 : EPERM;
}
int sched_getscheduler(pid_t pid) {
  return find(pid) < 0 ? -1 : SCHED_OTHER;
}
int sched_getparam(pid_t pid, struct sched_param* parameters) {
  if (find(pid) < 0) return -1;
  parameters->sched_priority = 0;
  return 0;
}
int sched_setscheduler(pid_t pid, int policy, const struct sched_param* parameters) {
  if (find(pid) < 0) return -1;
  const int error = check(policy, parameters);
  return error != 0 ? fail(error) : SCHED_OTHER;
}
int sched_setparam(pid_t pid, const struct sched_param* parameters) {
  return sched_setscheduler(pid, SCHED_OTHER, parameters) < 0 ? -1 : 0;
}

int pthread_getschedparam(pthread_t thread, int* restrict policy,
                          struct sched_param* restrict parameters) {
  (void)thread;
  *policy = SCHED_OTHER;
  parameters->sched_priority = 0;
  return 0;
}
int pthread_setschedparam(pthread_t thread, int policy, const struct sched_param* parameters) {
  (void)thread;
  return check(policy, parameters);
}
int pthread_setschedprio(pthread_t thread, int priority) {
  (void)thread;
  return priority == 0 ? 0 : EINVAL;
}

/* The concurrency level is a hint. It has no effect, because each thread is a kernel thread. POSIX
 * requires that the level is stored. */
static int concurrency;
int pthread_getconcurrency(void) {
  return concurrency;
}
int pthread_setconcurrency(int level) {
  if (level < 0) return EINVAL;
  concurrency = level;
  return 0;
}
