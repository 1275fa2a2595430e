/* Limits, usage, priorities. */
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "sigtest.h"

static int set_limit(int resource, rlim_t current, rlim_t maximum) {
  struct rlimit limit = {.rlim_cur = current, .rlim_max = maximum};
  return setrlimit(resource, &limit);
}

static int few_descriptors(void) {
  if (set_limit(RLIMIT_NOFILE, 5, 8) != 0 || sysconf(_SC_OPEN_MAX) != 5) return 1;
  if (getdtablesize() != 5) return 2;
  int fd;
  while ((fd = open("/dev/null", O_RDWR)) >= 0) {
    if (fd >= 5) return 3;
  }
  if (errno != EMFILE) return 4;
  int pair[2];
  if (!FAILS(pipe(pair), EMFILE)) return 5;
  if (!FAILS(dup2(0, 5), EBADF) || !FAILS(fcntl(0, F_DUPFD, 5), EINVAL)) return 6;
  if (dup2(1, 1) != 1) return 7;
  return set_limit(RLIMIT_NOFILE, 8, 8) != 0 || dup2(0, 5) != 5;
}

static int inherited(void) {
  struct rlimit limit;
  return !(getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur == 7 && limit.rlim_max == 7);
}
static int lowers_and_forks(void) {
  if (set_limit(RLIMIT_NOFILE, 7, 7) != 0) return 1;
  return in_child(inherited) != 0;
}

static int may_not_raise(void) {
  if (set_limit(RLIMIT_NOFILE, 100, 100) != 0) return 1;
  return !FAILS(set_limit(RLIMIT_NOFILE, 100, 101), EPERM);
}

static const char* const file = "/tmp/sigtest.file";
static int writes_too_much(void) {
  static char bytes[2000];
  int fd = open(file, O_RDWR | O_CREAT | O_TRUNC, 0600);
  if (set_limit(RLIMIT_FSIZE, 1000, 5000) != 0) return 1;
  signal(SIGXFSZ, SIG_IGN);
  if (write(fd, bytes, sizeof bytes) != 1000) return 2;
  if (!FAILS(write(fd, bytes, 1), EFBIG)) return 3;
  if (pwrite(fd, bytes, 1000, 500) != 500) return 4;
  if (!FAILS(ftruncate(fd, 1001), EFBIG) || !FAILS(truncate(file, 1001), EFBIG)) return 6;
  if (truncate(file, 10) != 0 || ftruncate(fd, 1000) != 0) return 7;
  int pair[2];
  if (pipe(pair) != 0 || write(pair[1], bytes, 2000) != 2000) return 5;
  signal(SIGXFSZ, SIG_DFL);
  return (int)write(fd, bytes, 1);
}

static int computes(void) {
  if (set_limit(RLIMIT_CPU, 1, RLIM_INFINITY) != 0) return 1;
  for (;;) continue;
}

/* Sleeps shortly before each tick, so that no tick finds it. */
static int computes_between_ticks(void) {
  if (set_limit(RLIMIT_CPU, 1, RLIM_INFINITY) != 0) return 1;
  alarm(60);
  for (;;) {
    const struct timespec moment = {.tv_nsec = 100000};
    struct timespec start, now;
    nanosleep(&moment, NULL);
    clock_gettime(CLOCK_MONOTONIC, &start);
    do {
      clock_gettime(CLOCK_MONOTONIC, &now);
    } while ((now.tv_sec - start.tv_sec) * 1000000000L + now.tv_nsec - start.tv_nsec < 3700000);
  }
}

static double thread_seconds(void) {
  struct timespec used;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return (double)used.tv_sec + (double)used.tv_nsec / 1e9;
}
static void* computes_for_a_while(void* unused) {
  while (thread_seconds() < 0.45) continue;
  return unused;
}
static void at_limit(int signal) {
  struct rusage usage;
  (void)signal;
  if (getrusage(RUSAGE_SELF, &usage) != 0) _exit(2);
  if (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec == 0 &&
      usage.ru_utime.tv_usec + usage.ru_stime.tv_usec < 1000000)
    _exit(3);
  _exit(thread_seconds() < 0.9 ? 0 : 4);
}
/* The time of two threads that have ended counts, so the third thread reaches the limit soon. */
static int threads_compute(void) {
  pthread_t threads[2];
  signal(SIGXCPU, at_limit);
  if (set_limit(RLIMIT_CPU, 1, RLIM_INFINITY) != 0) return 1;
  for (int i = 0; i < 2; i++)
    if (pthread_create(&threads[i], NULL, computes_for_a_while, NULL) != 0) return 5;
  for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
  for (;;) continue;
}

static int too_much_memory(void) {
  struct rlimit limit = {.rlim_cur = 8 << 20, .rlim_max = 8 << 20};
  if (setrlimit(RLIMIT_AS, &limit) != 0) return 1;
  void* pages = mmap(NULL, 16 << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages != MAP_FAILED || errno != ENOMEM) return 2;
  pages = mmap(NULL, 1 << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) return 3;
  void* volatile memory = malloc(100 << 20);
  if (memory != NULL) return 4;
  limit.rlim_cur = limit.rlim_max = 2 << 20;
  if (setrlimit(RLIMIT_DATA, &limit) != 0 || sbrk(4 << 20) != (void*)-1) return 5;
  memory = malloc(1000);
  return memory == NULL;
}

static int too_many_processes(void) {
  if (set_limit(RLIMIT_NPROC, 2, 2) != 0) return 1;
  pid_t child = fork();
  if (child == 0) _exit(FAILS(fork(), EAGAIN) ? 0 : 1);
  return child < 0 ? 2 : WEXITSTATUS(status_of(child));
}

static int fixed(void) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur != 8 << 20) return 1;
  if (!FAILS(set_limit(RLIMIT_STACK, 1 << 20, 8 << 20), EPERM)) return 2;
  if (getrlimit(RLIMIT_CORE, &limit) != 0 || limit.rlim_max != 0) return 3;
  if (set_limit(RLIMIT_CORE, 0, 0) != 0) return 4;
  if (!FAILS(set_limit(RLIMIT_CORE, 1, 1), EPERM)) return 5;
  if (!FAILS(set_limit(RLIMIT_MEMLOCK, 1, 1), EPERM)) return 6;
  if (getrlimit(RLIMIT_RSS, &limit) != 0 || limit.rlim_cur != RLIM_INFINITY) return 7;
  if (!FAILS(set_limit(RLIMIT_AS, 2, 1), EINVAL)) return 8;
  if (!FAILS(getrlimit(99, &limit), EINVAL)) return 9;
  if (!FAILS(set_limit(RLIMIT_NOFILE, 10, 257), EPERM)) return 10;
  return 0;
}

static int is_nice(void) {
  return getpriority(PRIO_PROCESS, 0) != 5;
}
static int is_nicer(void) {
  errno = 0;
  if (nice(5) != 5 || getpriority(PRIO_PROCESS, 0) != 5 || in_child(is_nice) != 0) return 1;
  if (!FAILS(nice(-1), EPERM)) return 2;
  if (!FAILS(setpriority(PRIO_PROCESS, 0, 4), EACCES)) return 3;
  if (!FAILS(setpriority(PRIO_PROCESS, 1, 10), EPERM)) return 4;
  if (!FAILS(setpriority(PRIO_PROCESS, 31000, 10), ESRCH)) return 5;
  if (!FAILS(getpriority(9, 0), EINVAL)) return 6;
  return nice(100) != 19;
}

static void usage(void) {
  struct rusage before, after;
  CHECK(getrusage(RUSAGE_SELF, &before) == 0 && before.ru_maxrss > 0);
  volatile char* pages =
      mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  for (int i = 0; i < 1 << 20; i += 4096) pages[i] = 1;
  munmap((void*)pages, 1 << 20);
  pause_ms(5);
  CHECK(getrusage(RUSAGE_SELF, &after) == 0 && after.ru_minflt >= before.ru_minflt + 256);
  CHECK(after.ru_maxrss >= before.ru_maxrss && after.ru_nvcsw > before.ru_nvcsw);
  CHECK(after.ru_majflt > 0);
  CHECK(getrusage(RUSAGE_CHILDREN, &after) == 0 && after.ru_maxrss > 0 && after.ru_minflt > 0);
  CHECK(FAILS(getrusage(7, &after), EINVAL));
}

void test_limits(void) {
  CHECK(in_child(few_descriptors) == 0);
  CHECK(in_child(lowers_and_forks) == 0);
  CHECK(as_nobody(may_not_raise) == 0);
  CHECK(in_child(writes_too_much) == SIGXFSZ);
  unlink(file);
  CHECK(in_child(computes) == SIGXCPU);
  CHECK(in_child(computes_between_ticks) == SIGXCPU);
  CHECK(in_child(threads_compute) == 0);
  CHECK(in_child(too_much_memory) == 0);
  CHECK(as_nobody(too_many_processes) == 0);
  CHECK(in_child(fixed) == 0);
  CHECK(as_nobody(is_nicer) == 0);
  usage();
  CHECK(sysconf(_SC_RTSIG_MAX) == 31 && sysconf(_SC_PAGESIZE) == 4096);
  long memory = sysconf(_SC_PHYS_PAGES), available = sysconf(_SC_AVPHYS_PAGES);
  CHECK(available > 1000 && memory > available && memory < 1L << 28);
  errno = 0;
  CHECK(sysconf(_SC_CHILD_MAX) == -1 && errno == 0);
  CHECK(sysconf(_SC_SYMLOOP_MAX) == SYMLOOP_MAX && sysconf(_SC_MAPPED_FILES) == 200809L);
  CHECK(sysconf(9999) == -1 && errno == EINVAL);
  CHECK(sysconf(_SC_NPROCESSORS_ONLN) >= 1);
}
