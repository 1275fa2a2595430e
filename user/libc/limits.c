/* Limits of the system and of a process, and a process's usage and priority. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "syscall.h"

static void timeval_of(struct timeval* to, const struct abi_timespec* from) {
  to->tv_sec = from->sec;
  to->tv_usec = from->nsec / 1000;
}

void __stele_rusage(struct rusage* to, const struct abi_rusage* from) {
  memset(to, 0, sizeof *to);
  timeval_of(&to->ru_utime, &from->user);
  timeval_of(&to->ru_stime, &from->system);
  to->ru_maxrss = (long)(from->max_resident / 1024);
  to->ru_minflt = (long)from->minor_faults;
  to->ru_majflt = (long)from->major_faults;
  to->ru_nvcsw = (long)from->voluntary_switches;
  to->ru_nivcsw = (long)from->involuntary_switches;
}

int getrusage(int who, struct rusage* usage) {
  struct abi_rusage abi;
  if (who != RUSAGE_SELF && who != RUSAGE_CHILDREN) {
    errno = EINVAL;
    return -1;
  }
  int children = who == RUSAGE_CHILDREN;
  if (SYSCALL(times, children ? NULL : &abi, children ? &abi : NULL) < 0) return -1;
  __stele_rusage(usage, &abi);
  return 0;
}

int getrlimit(int resource, struct rlimit* limit) {
  return (int)SYSCALL(rlimit, resource, NULL, limit);
}
int setrlimit(int resource, const struct rlimit* limit) {
  return (int)SYSCALL(rlimit, resource, limit, NULL);
}

int getpriority(int which, id_t who) {
  long result = SYSCALL(getpriority, which, who);
  return result < 0 ? -1 : 20 - (int)result;
}
int setpriority(int which, id_t who, int nice) {
  return (int)SYSCALL(setpriority, which, who, nice);
}

/* Returns the new nice value, or -1 on an error. The nice value may itself be -1: only errno tells
 * the difference. Fails with EPERM where setpriority fails with EACCES. */
int nice(int more) {
  int now = getpriority(PRIO_PROCESS, 0) + more;
  if (now < PRIO_MIN) now = PRIO_MIN;
  if (now > PRIO_MAX - 1) now = PRIO_MAX - 1;
  if (setpriority(PRIO_PROCESS, 0, now) < 0) {
    if (errno == EACCES) errno = EPERM;
    return -1;
  }
  return now;
}

/* Returns the soft limit. If there is no limit, returns -1 and leaves errno unchanged. */
static long soft_limit(int resource) {
  struct rlimit limit;
  if (getrlimit(resource, &limit) < 0) return -1;
  return limit.rlim_cur == RLIM_INFINITY ? -1 : (long)limit.rlim_cur;
}

int getdtablesize(void) {
  return (int)soft_limit(RLIMIT_NOFILE);
}

/* Returns the value of the line `line` of #proc/meminfo, converted from KiB to pages; -1 with errno
 * on an error. */
static long memory_pages(const char* line) {
  char text[512];
  int fd = open("#proc/meminfo", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return -1;
  ssize_t size = read(fd, text, sizeof text - 1);
  int error = errno;
  close(fd);
  errno = error;
  if (size < 0) return -1;
  text[size] = '\0';
  const char* at = strstr(text, line);
  if (at == NULL) return __stele_fail(ENOSYS, "sysconf: #proc/meminfo lacks the line");
  return strtol(at + strlen(line), NULL, 10) / 4;
}

long sysconf(int name) {
  switch (name) {
    case _SC_ARG_MAX:
      return ARG_MAX;
    case _SC_CHILD_MAX:
      return soft_limit(RLIMIT_NPROC);
    case _SC_OPEN_MAX:
      return soft_limit(RLIMIT_NOFILE);
    case _SC_CLK_TCK:
      return 250;
    case _SC_NGROUPS_MAX:
      return NGROUPS_MAX;
    case _SC_PAGESIZE:
      return 4096;
    case _SC_GETGR_R_SIZE_MAX:
    case _SC_GETPW_R_SIZE_MAX:
      return 1024;
    case _SC_LINE_MAX:
      return LINE_MAX;
    case _SC_IOV_MAX:
      return IOV_MAX;
    case _SC_HOST_NAME_MAX:
      return 64;
    case _SC_LOGIN_NAME_MAX:
      return 33;
    case _SC_TTY_NAME_MAX:
      return 32;
    case _SC_RE_DUP_MAX:
      return RE_DUP_MAX;
    case _SC_BC_BASE_MAX:
      return BC_BASE_MAX;
    case _SC_BC_DIM_MAX:
      return BC_DIM_MAX;
    case _SC_BC_SCALE_MAX:
      return BC_SCALE_MAX;
    case _SC_BC_STRING_MAX:
      return BC_STRING_MAX;
    case _SC_COLL_WEIGHTS_MAX:
      return COLL_WEIGHTS_MAX;
    case _SC_SYMLOOP_MAX:
      return SYMLOOP_MAX;
    case _SC_EXPR_NEST_MAX:
      return EXPR_NEST_MAX;
    case _SC_STREAM_MAX:
      return soft_limit(RLIMIT_NOFILE);
    case _SC_RTSIG_MAX:
      return SIGRTMAX - SIGRTMIN + 1;
    case _SC_SIGQUEUE_MAX:
    case _SC_TIMER_MAX:
      return 32;
    case _SC_DELAYTIMER_MAX:
      return INT_MAX;
    case _SC_NPROCESSORS_CONF:
    case _SC_NPROCESSORS_ONLN: {
      struct abi_utsname name_of;
      long count = 0;
      if (SYSCALL(uname, &name_of) < 0) return -1;
      for (const char* digit = name_of.version; *digit >= '0' && *digit <= '9'; digit++)
        count = 10 * count + (*digit - '0');
      return count;
    }
    case _SC_PHYS_PAGES:
      return memory_pages("MemTotal:");
    case _SC_AVPHYS_PAGES:
      return memory_pages("MemAvailable:");
    case _SC_JOB_CONTROL:
    case _SC_SAVED_IDS:
    case _SC_REGEXP:
    case _SC_SHELL:
      return 1;
    case _SC_VERSION:
    case _SC_2_VERSION:
    case _SC_FSYNC:
    case _SC_MAPPED_FILES:
    case _SC_MEMORY_PROTECTION:
    case _SC_MONOTONIC_CLOCK:
    case _SC_CLOCK_SELECTION:
    case _SC_CPUTIME:
    case _SC_TIMERS:
    case _SC_REALTIME_SIGNALS:
    case _SC_THREADS:
    case _SC_THREAD_SAFE_FUNCTIONS:
    case _SC_THREAD_ATTR_STACKADDR:
    case _SC_THREAD_ATTR_STACKSIZE:
    case _SC_THREAD_PROCESS_SHARED:
    case _SC_THREAD_CPUTIME:
    case _SC_SEMAPHORES:
    case _SC_PRIORITY_SCHEDULING:
    case _SC_TIMEOUTS:
    case _SC_BARRIERS:
    case _SC_SPIN_LOCKS:
    case _SC_READER_WRITER_LOCKS:
      return 200809L;
    /* sysconf does not announce these options, and gives no value for these limits. It returns -1
     * and leaves errno unchanged. */
    case _SC_SHARED_MEMORY_OBJECTS:
    case _SC_MESSAGE_PASSING:
    case _SC_ASYNCHRONOUS_IO:
    case _SC_PRIORITIZED_IO:
    case _SC_SYNCHRONIZED_IO:
    case _SC_MEMLOCK:
    case _SC_MEMLOCK_RANGE:
    case _SC_IPV6:
    case _SC_RAW_SOCKETS:
    case _SC_TRACE:
    case _SC_TYPED_MEMORY_OBJECTS:
    case _SC_SPORADIC_SERVER:
    case _SC_XOPEN_VERSION:
    case _SC_XOPEN_UNIX:
    case _SC_THREAD_THREADS_MAX:
    case _SC_THREAD_PRIORITY_SCHEDULING:
    case _SC_THREAD_PRIO_INHERIT:
    case _SC_THREAD_PRIO_PROTECT:
    case _SC_SEM_NSEMS_MAX:
      return -1;
    case _SC_ATEXIT_MAX:
      return ATEXIT_MAX;
    case _SC_SEM_VALUE_MAX:
      return SEM_VALUE_MAX;
    case _SC_THREAD_DESTRUCTOR_ITERATIONS:
      return PTHREAD_DESTRUCTOR_ITERATIONS;
    case _SC_THREAD_KEYS_MAX:
      return PTHREAD_KEYS_MAX;
    case _SC_THREAD_STACK_MIN:
      return PTHREAD_STACK_MIN;
    default:
      return __stele_fail(EINVAL, "sysconf: not known here");
  }
}
