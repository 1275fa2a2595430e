/* proctest mended NAME: does what three defects of the kernel needed, which are mended: `walk`,
 * `timer` or `descriptor`. The options break=stale_walk, timer_storm and devfd_race on the command
 * line of a debug kernel bring these defects back.
 */
#include <pthread.h>

#include "proctest.h"

static double seconds(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void spin(double time) {
  for (const double end = seconds() + time; seconds() < end;) continue;
}

/* A directory is `d` and `x` in turn. The other name is a link that leads through the directory,
 * deep into it, with many `..`. If a walk through the link comes to a `..` after the names have
 * changed, it finds the name so far stale, and this name now leads through the other link. */
enum { kDepth = 60 };

static void write_target(char (*target)[800], const char* directory) {
  size_t length = (size_t)sprintf(*target, "/tmp/w/%s", directory);
  for (int i = 0; i < kDepth; i++) length += (size_t)sprintf(*target + length, "/a");
  while (length + 6 < sizeof *target) length += (size_t)sprintf(*target + length, "/../a");
}

static void swap_names(void) {
  static char to_d[800], to_x[800];
  write_target(&to_d, "d");
  write_target(&to_x, "x");
  for (;;) {
    unlink("/tmp/w/x");
    rename("/tmp/w/d", "/tmp/w/x");
    if (symlink(to_x, "/tmp/w/d") != 0) _exit(1);
    spin(5e-4);
    unlink("/tmp/w/d");
    rename("/tmp/w/x", "/tmp/w/d");
    if (symlink(to_d, "/tmp/w/x") != 0) _exit(1);
    spin(5e-4);
  }
}

static int walk_while_names_change(void) {
  mkdir("/tmp/w", 0777);
  chdir("/tmp/w");
  for (int i = 0; i <= kDepth; i++) {
    if (mkdir(i == 0 ? "d" : "a", 0777) != 0 || chdir(i == 0 ? "d" : "a") != 0) return 2;
  }
  const pid_t child = fork();
  if (child == 0) swap_names();
  for (const double end = seconds() + 3; seconds() < end;) {
    char* const arguments[] = {"none", NULL};
    open("none", O_RDONLY);
    execve("none", arguments, NULL);
  }
  kill(child, SIGKILL);
  return status_of(child) != SIGKILL;
}

/* A timer that nobody notices, and that expires in each nanosecond. */
static int expire_often(void) {
  timer_t timer;
  struct sigevent event = {.sigev_notify = SIGEV_NONE};
  const struct itimerspec spec = {.it_value = {.tv_nsec = 1}, .it_interval = {.tv_nsec = 1}};
  if (timer_create(CLOCK_MONOTONIC, &event, &timer) != 0 ||
      timer_settime(timer, 0, &spec, NULL) != 0)
    return 2;
  pause_ms(100);
  return 0;
}

enum { kDescriptor = 20 };

/* Opens a program for writing, again and again, and closes it with its last descriptor. */
static void* open_and_close(void* stop) {
  while (!*(volatile int*)stop) {
    const int fd = open("/tmp/program", O_RDWR);
    dup2(fd, kDescriptor);
    close(fd);
    close(kDescriptor);
  }
  return NULL;
}

/* While a thread does so, this one opens the open file by its name in /dev/fd. Nobody has the file
 * open in the end, so it can be executed. */
static int open_while_closed(void) {
  char path[32];
  snprintf(path, sizeof path, "/dev/fd/%d", kDescriptor);
  const int made = open("/tmp/program", O_WRONLY | O_CREAT, 0755);
  if (write(made, "#!/bin/true\n", 12) != 12 || close(made) != 0) return 2;
  volatile int stop = 0;
  pthread_t thread;
  if (pthread_create(&thread, NULL, open_and_close, (void*)&stop) != 0) return 2;
  unsigned opened = 0;
  for (const double end = seconds() + 3; seconds() < end;) {
    const int fd = open(path, O_RDWR);
    opened += fd >= 0;
    if (fd >= 0) close(fd);
  }
  stop = 1;
  pthread_join(thread, NULL);
  printf("opened %u times\n", opened);
  fflush(stdout);
  execl("/tmp/program", "program", NULL);
  perror("proctest: /tmp/program");
  return 1;
}

int do_mended(const char* name) {
  if (strcmp(name, "walk") == 0) return walk_while_names_change();
  if (strcmp(name, "timer") == 0) return expire_often();
  if (strcmp(name, "descriptor") == 0) return open_while_closed();
  return 2;
}
