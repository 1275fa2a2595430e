/* poll and select: which event wakes which waiter. */
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/select.h>

#include "sigtest.h"

enum { PIPES = 100 };
static int ends[PIPES][2];

static volatile sig_atomic_t count;
static void record(int signal, siginfo_t* info, void* context) {
  (void)signal, (void)info, (void)context;
  count++;
}

static int writes_one(void) {
  pause_ms(20);
  return write(ends[57][1], "x", 1) != 1;
}

static void many_descriptors(void) {
  struct pollfd fds[300];
  char byte;
  for (int i = 0; i < PIPES; i++) {
    CHECK(pipe(ends[i]) == 0);
    fds[i] = (struct pollfd){.fd = ends[i][0], .events = POLLIN | POLLPRI};
  }
  pid_t child = start_child(writes_one);
  CHECK(poll(fds, PIPES, -1) == 1 && fds[57].revents == POLLIN && fds[56].revents == 0);
  CHECK(status_of(child) == 0 && read(ends[57][0], &byte, 1) == 1);
  CHECK(poll(fds, PIPES, 0) == 0 && poll(fds, PIPES, 10) == 0);
  fds[3].fd = -1;
  fds[4].fd = 255;
  fds[5] = (struct pollfd){.fd = ends[5][1], .events = POLLOUT | POLLWRNORM | POLLRDNORM};
  CHECK(poll(fds, PIPES, -1) == 2 && fds[4].revents == POLLNVAL &&
        fds[5].revents == (POLLOUT | POLLWRNORM) && fds[3].revents == 0);
  close(ends[6][1]);
  fds[4].fd = -1;
  fds[5].events = 0;
  CHECK(poll(fds, PIPES, -1) == 1 && fds[6].revents == POLLHUP);
  fds[6].fd = -1;
  close(ends[5][0]);
  CHECK(poll(fds, PIPES, -1) == 1 && fds[5].revents == POLLERR);
  CHECK(poll(fds, 300, 0) == -1 && errno == EINVAL);
  CHECK(poll(NULL, 0, 5) == 0 && poll((void*)16, 1, 0) == -1 && errno == EFAULT);
  for (int i = 0; i < PIPES; i++) {
    close(ends[i][0]);
    close(ends[i][1]);
  }
}

/* An event wakes all processes that wait for it, also those that wait for several files. */
static int waits_for_zero(void) {
  struct pollfd fds[2] = {{.fd = ends[0][0], .events = POLLIN}, {.fd = ends[1][0]}};
  return !(poll(fds, 2, -1) == 1 && fds[0].revents == POLLIN);
}

static void many_pollers(void) {
  char byte;
  CHECK(pipe(ends[0]) == 0 && pipe(ends[1]) == 0);
  pid_t children[12];
  for (int i = 0; i < 12; i++) children[i] = start_child(waits_for_zero);
  pause_ms(30);
  /* One process is stopped and continued, and still waits. Others are killed while they wait. */
  CHECK(kill(children[0], SIGSTOP) == 0 && waitpid(children[0], NULL, WUNTRACED) == children[0]);
  kill(children[0], SIGCONT);
  for (int i = 6; i < 12; i++) kill(children[i], SIGKILL);
  for (int i = 6; i < 12; i++) CHECK(status_of(children[i]) == SIGKILL);
  CHECK(waitpid(-1, NULL, WNOHANG) == 0);
  CHECK(write(ends[0][1], "x", 1) == 1);
  for (int i = 0; i < 6; i++) CHECK(status_of(children[i]) == 0);
  CHECK(read(ends[0][0], &byte, 1) == 1);
}

static int signals_parent(void) {
  pause_ms(20);
  return kill(getppid(), SIGUSR1);
}

/* The mask given to ppoll and pselect is in effect during the call. Before and after the call, the
 * process's own mask is in effect. */
static void masks(void) {
  struct pollfd fd = {.fd = ends[0][0], .events = POLLIN};
  sigset_t none, now;
  sigemptyset(&none);
  handle(SIGUSR1, record, SA_RESTART);
  block(SIGUSR1);
  count = 0;
  raise(SIGUSR1);
  CHECK(ppoll(&fd, 1, NULL, &none) == -1 && errno == EINTR && count == 1);
  CHECK(sigprocmask(SIG_SETMASK, NULL, &now) == 0 && sigismember(&now, SIGUSR1));
  pid_t child = start_child(signals_parent);
  CHECK(ppoll(&fd, 1, NULL, &none) == -1 && errno == EINTR && count == 2);
  CHECK(status_of(child) == 0);
  fd_set reading;
  FD_ZERO(&reading);
  FD_SET(ends[0][0], &reading);
  child = start_child(signals_parent);
  CHECK(pselect(ends[0][0] + 1, &reading, NULL, NULL, NULL, &none) == -1 && errno == EINTR &&
        count == 3 && FD_ISSET(ends[0][0], &reading));
  CHECK(status_of(child) == 0);
  struct timespec time = {.tv_nsec = 1000000};
  CHECK(ppoll(&fd, 1, &time, &none) == 0);
  CHECK(sigprocmask(SIG_SETMASK, NULL, &now) == 0 && sigismember(&now, SIGUSR1));
  time.tv_nsec = 1000000000;
  CHECK(ppoll(&fd, 1, &time, &none) == -1 && errno == EINVAL);
  sigset_t all;
  sigfillset(&all);
  unblock(SIGUSR1);
  child = start_child(signals_parent);
  time = (struct timespec){.tv_nsec = 60000000};
  CHECK(ppoll(&fd, 1, &time, &all) == 0);
  CHECK(status_of(child) == 0 && count == 4);
  signal(SIGUSR1, SIG_DFL);
}

/* A stopped ppoll begins again when the process continues. If it fails then, because its array is
 * not mapped any more, it must still restore the mask that it had replaced before the stop. */
static struct pollfd* mapped;

static int polls_mapped(void) {
  sigset_t none, now;
  sigemptyset(&none);
  block(SIGUSR1);
  if (ppoll(mapped, 1, NULL, &none) != -1 || errno != EFAULT) return 1;
  return !(sigprocmask(SIG_SETMASK, NULL, &now) == 0 && sigismember(&now, SIGUSR1));
}

static void fails_after_stop(void) {
  static const char path[] = "/tmp/sigtest.polls";
  const int file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
  CHECK(file >= 0 && ftruncate(file, sizeof(*mapped)) == 0);
  mapped = mmap(NULL, sizeof(*mapped), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  CHECK(mapped != MAP_FAILED);
  *mapped = (struct pollfd){.fd = ends[0][0], .events = POLLIN};
  const pid_t child = start_child(polls_mapped);
  pause_ms(30);
  CHECK(kill(child, SIGSTOP) == 0 && waitpid(child, NULL, WUNTRACED) == child);
  CHECK(ftruncate(file, 0) == 0 && kill(child, SIGCONT) == 0);
  CHECK(status_of(child) == 0);
  munmap(mapped, sizeof(*mapped));
  close(file);
  unlink(path);
}

static void sets(void) {
  CHECK(FD_SETSIZE >= sysconf(_SC_OPEN_MAX));
  fd_set reading, writing, wrong;
  int high = dup2(ends[0][0], FD_SETSIZE - 1);
  CHECK(high == FD_SETSIZE - 1);
  FD_ZERO(&reading);
  FD_ZERO(&writing);
  FD_ZERO(&wrong);
  FD_SET(high, &reading);
  FD_SET(ends[1][0], &reading);
  FD_SET(ends[0][1], &writing);
  struct timeval time = {.tv_sec = 10};
  CHECK(select(FD_SETSIZE, &reading, &writing, &wrong, &time) == 1 && !FD_ISSET(high, &reading) &&
        FD_ISSET(ends[0][1], &writing));
  CHECK(write(ends[0][1], "x", 1) == 1);
  FD_SET(high, &reading);
  FD_ZERO(&writing);
  CHECK(select(FD_SETSIZE, &reading, &writing, NULL, NULL) == 1 && FD_ISSET(high, &reading));
  close(high);
  CHECK(select(FD_SETSIZE, &reading, NULL, NULL, &time) == -1 && errno == EBADF);
  CHECK(select(FD_SETSIZE + 1, NULL, NULL, NULL, &time) == -1 && errno == EINVAL);
  time.tv_usec = 1000000;
  CHECK(select(0, NULL, NULL, NULL, &time) == -1 && errno == EINVAL);
  for (int i = 0; i < 2; i++) {
    close(ends[i][0]);
    close(ends[i][1]);
  }
}

void test_polls(void) {
  many_descriptors();
  many_pollers();
  masks();
  fails_after_stop();
  sets();
}
