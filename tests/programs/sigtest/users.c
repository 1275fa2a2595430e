/* Limits of the objects that the kernel holds for a user, and the choice of a victim when memory
 * runs out. */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "sigtest.h"

static void* sleeps(void* argument) {
  for (;;) pause();
  return argument;
}

/* Makes at most `most` threads with small stacks, which call `run`. Returns their number; errno has
 * the error. */
static int make_threads(int most, void* (*run)(void*)) {
  pthread_attr_t small;
  pthread_t thread;
  int made = 0;
  pthread_attr_init(&small);
  pthread_attr_setstacksize(&small, 16384);
  while (made < most) {
    errno = pthread_create(&thread, &small, run, NULL);
    if (errno != 0) break;
    made++;
  }
  return made;
}

static int threads_count_as_processes(void) {
  const struct rlimit limit = {.rlim_cur = 3, .rlim_max = 3};
  if (setrlimit(RLIMIT_NPROC, &limit) != 0) return 1;
  if (make_threads(10, sleeps) != 2 || errno != EAGAIN) return 2;
  return fork() == -1 && errno == EAGAIN ? 0 : 3;
}

static int zombies_count_as_processes(void) {
  const struct rlimit limit = {.rlim_cur = 2, .rlim_max = 2};
  if (setrlimit(RLIMIT_NPROC, &limit) != 0) return 1;
  const pid_t child = fork();
  if (child == 0) _exit(0);
  siginfo_t info;
  if (child < 0 || waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT) != 0) return 2;
  if (fork() != -1 || errno != EAGAIN || waitpid(child, NULL, 0) != child) return 3;
  const pid_t another = fork();
  if (another == 0) _exit(0);
  return another < 0 || waitpid(another, NULL, 0) != another;
}

static int locks_many(void) {
  const int fd = open("/tmp/sigtest.locks", O_RDWR | O_CREAT, 0600);
  int made = 0;
  for (; made < 5000; made++) {
    struct flock lock = {.l_type = F_WRLCK, .l_start = 2 * made, .l_len = 1};
    if (fcntl(fd, F_SETLK, &lock) < 0) break;
  }
  if (made != 1024 || errno != ENOLCK) return 1;
  struct flock none = {.l_type = F_UNLCK};
  if (fcntl(fd, F_SETLK, &none) < 0) return 2;
  struct flock again = {.l_type = F_WRLCK, .l_len = 1};
  return fcntl(fd, F_SETLK, &again) < 0 || unlink("/tmp/sigtest.locks") < 0;
}

void test_users(void) {
  CHECK(as_nobody(threads_count_as_processes) == 0);
  CHECK(as_nobody(zombies_count_as_processes) == 0);
  CHECK(as_nobody(locks_many) == 0);
}

/* Starts processes that make threads until they get no more. Prints the number of threads, and ends
 * the processes when standard input ends. */
int crowd(int processes) {
  int told[2], total = 0;
  char byte;
  if (pipe(told) < 0) return 1;
  for (int i = 0; i < processes; i++) {
    if (fork() != 0) continue;
    const int made = make_threads(1000, sleeps);
    write(told[1], &made, sizeof made);
    for (;;) pause();
  }
  for (int i = 0, made; i < processes; i++) {
    if (read(told[0], &made, sizeof made) != sizeof made) return 1;
    total += made;
  }
  printf("%d threads\n", total);
  while (read(0, &byte, 1) > 0) continue;
  signal(SIGTERM, SIG_IGN);
  kill(0, SIGTERM);
  while (wait(NULL) > 0) continue;
  return 0;
}

/* Makes pseudo terminals until the user may have no more, prints their number, and keeps them until
   the end of standard input. A process has fewer than 256 descriptors, so it takes several. They
   work one after the other: an open that finds no descriptor has a pseudo terminal for a moment. */
int ptys(void) {
  int told[2], held[2], total = 0, made = 1;
  char byte;
  if (pipe(told) < 0 || pipe(held) < 0) return 1;
  while (made > 0) {
    if (fork() == 0) {
      made = 0;
      close(held[1]);
      while (open("/dev/ptmx", O_RDWR | O_NOCTTY) >= 0) made++;
      write(told[1], &made, sizeof made);
      read(held[0], &byte, 1);
      _exit(0);
    }
    if (read(told[0], &made, sizeof made) != sizeof made) return 1;
    total += made;
  }
  printf("%d pseudo terminals\n", total);
  fflush(stdout);
  while (read(0, &byte, 1) > 0) continue;
  close(held[1]);
  while (wait(NULL) > 0) continue;
  return 0;
}

/* Starts processes that use this much memory for some seconds. Each prints `filled` when it has all
 * of it. Prints how many were not killed. */
int greed(int processes, int megabytes) {
  int alive = 0, status;
  for (int i = 0; i < processes; i++) {
    if (fork() != 0) continue;
    const size_t size = (size_t)megabytes << 20;
    volatile char* const pages =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) _exit(1);
    for (size_t at = 0; at < size; at += 4096) pages[at] = 1;
    dprintf(STDOUT_FILENO, "filled\n");
    pause_ms(3000);
    _exit(0);
  }
  while (wait(&status) > 0) alive += status == 0;
  printf("%d of %d\n", alive, processes);
  return 0;
}

enum { POLLED = 256, POLLING = 20 };
static int quiet[2]; /* a pipe */
static char large[1 << 16];

static void* reads(void* argument) {
  read(quiet[0], large, sizeof large);
  return argument;
}

/* Polls the same file many times. Adds to `*(int*)argument` if the poll says that all are ready. */
static void* polls(void* argument) {
  struct pollfd files[POLLED];
  for (int i = 0; i < POLLED; i++) files[i] = (struct pollfd){.fd = quiet[0], .events = POLLIN};
  const int ready = poll(files, POLLED, -1);
  if (argument && ready == POLLED) __atomic_fetch_add((int*)argument, 1, __ATOMIC_RELAXED);
  return argument;
}

/* Maps a file with a long path again and again, and closes the descriptors. */
static int hoard_maps(void) {
  static char folder[250];
  memset(folder, 'd', sizeof folder - 1);
  for (int i = 0; i < 3; i++) {
    mkdir(folder, 0777);
    if (chdir(folder) < 0) return -1;
  }
  int made = 0;
  for (;; made++) {
    const int fd = open("f", O_RDWR | O_CREAT, 0666);
    if (fd < 0) return made;
    const int failed = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED;
    close(fd);
    if (failed) return made;
  }
}

static int hoard_texts(void) {
  int made = 0;
  while (open("#mem/kmemstat", O_RDONLY) >= 0) made++;
  return made;
}

/* Processes take as much memory of the kernel as they get, by system calls of one kind. Prints how
 * often this worked. Keeps the memory until the end of standard input. */
int hoard(const char* kind) {
  enum { PROCESSES = 40 };
  int told[2], held[2], total = 0;
  char byte;
  if (pipe(told) < 0 || pipe(held) < 0 || pipe(quiet) < 0) return 1;
  for (int i = 0; i < PROCESSES; i++) {
    const pid_t child = fork();
    if (child < 0) break;
    int made = 0;
    if (child == 0) {
      close(held[1]);
      close(quiet[1]);
      if (strcmp(kind, "maps") == 0) made = hoard_maps();
      if (strcmp(kind, "texts") == 0) made = hoard_texts();
      if (strcmp(kind, "reads") == 0) made = make_threads(300, reads);
      sched_yield();
      write(told[1], &made, sizeof made);
      read(held[0], &byte, 1);
      _exit(0);
    }
    if (read(told[0], &made, sizeof made) != sizeof made) break;
    total += made;
  }
  printf("%d %s\n", total, kind);
  while (read(0, &byte, 1) > 0) continue;
  close(held[1]);
  close(quiet[1]); /* ends reads and polls */
  while (wait(NULL) > 0) continue;
  return 0;
}

/* Many threads poll one file many times. Then the file becomes ready. */
int pollers(void) {
  pthread_t threads[POLLING];
  int woken = 0;
  if (pipe(quiet) < 0) return 1;
  for (int i = 0; i < POLLING; i++) {
    if (pthread_create(&threads[i], NULL, polls, &woken) != 0) return 1;
  }
  pause_ms(100);
  write(quiet[1], "x", 1);
  for (int i = 0; i < POLLING; i++) pthread_join(threads[i], NULL);
  printf("%d of %d pollers\n", woken, POLLING);
  return 0;
}

/* Timers send signals that the process, which has many threads, ignores. */
int deaf(void) {
  signal(SIGUSR1, SIG_IGN);
  const int threads = make_threads(500, sleeps);
  int timers = 0;
  for (timer_t timer; timers < 32; timers++) {
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
    const struct itimerspec often = {.it_interval.tv_nsec = 1, .it_value.tv_nsec = 1};
    if (timer_create(CLOCK_MONOTONIC, &event, &timer) < 0) break;
    if (timer_settime(timer, 0, &often, NULL) < 0) break;
  }
  pause_ms(100);
  printf("%d threads, %d timers\n", threads, timers);
  return 0;
}
