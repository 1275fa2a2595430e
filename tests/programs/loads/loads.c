/* loads NAME ROUNDS: a whole load for `make bench` (bench/loads.py). A round is a few system calls
 * of one kind. With 0 rounds the program only prepares the load, and cleans up.
 *
 * Prints nothing. The status is 1 if a call fails, with a line on standard error. */
#include <err.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void must(int good, const char* what) {
  if (!good) err(1, "%s", what);
}

/* Opens and closes a pipe. */
static void open_pipe(void) {
  int ends[2];
  must(pipe(ends) == 0, "pipe");
  must(close(ends[0]) == 0 && close(ends[1]) == 0, "close");
}
static void pipes(long rounds) {
  for (long i = 0; i < rounds; i++) open_pipe();
}

/* Opens and closes a pipe, from another user stack for each number below 1 << levels. These stacks
 * differ only in their return addresses. */
__attribute__((noinline)) static void open_pipe_on_stack(unsigned number, unsigned levels) {
  if (levels == 0) {
    open_pipe();
  } else if (number % 2 == 0) {
    open_pipe_on_stack(number / 2, levels - 1);
    __asm__ volatile("# even");
  } else {
    open_pipe_on_stack(number / 2, levels - 1);
    __asm__ volatile("# odd");
  }
  __asm__ volatile(""); /* so that no call is a jump */
}
static void pipes_on_8_stacks(long rounds) {
  for (long i = 0; i < rounds; i++) open_pipe_on_stack((unsigned)i % 8, 3);
}

/* Looks up a path of five names. */
static void paths(long rounds) {
  static const char* const folders[] = {"/tmp/loads", "/tmp/loads/a", "/tmp/loads/a/b"};
  const char* file = "/tmp/loads/a/b/c";
  struct stat found;
  for (int i = 0; i < 3; i++) must(mkdir(folders[i], 0700) == 0, folders[i]);
  const int fd = open(file, O_CREAT | O_WRONLY, 0600);
  must(fd >= 0 && close(fd) == 0, file);
  for (long i = 0; i < rounds; i++) must(stat(file, &found) == 0, file);
  must(unlink(file) == 0, file);
  for (int i = 3; i-- > 0;) must(rmdir(folders[i]) == 0, folders[i]);
}

/* A byte goes round in a ring of four processes. */
enum { RING = 4 };
static void pass_on(int from, int to, long rounds) {
  char byte;
  for (long i = 0; i < rounds; i++) {
    must(read(from, &byte, 1) == 1, "read");
    must(write(to, &byte, 1) == 1, "write");
  }
}
static void ring(long rounds) {
  int pipes[RING][2];
  char byte = 'x';
  for (int i = 0; i < RING; i++) must(pipe(pipes[i]) == 0, "pipe");
  must(write(pipes[0][1], &byte, 1) == 1, "write");
  for (int i = 1; i < RING; i++) {
    const pid_t child = fork();
    must(child >= 0, "fork");
    if (child == 0) {
      pass_on(pipes[i][0], pipes[(i + 1) % RING][1], rounds);
      _exit(0);
    }
  }
  pass_on(pipes[0][0], pipes[1][1], rounds);
  for (int i = 1; i < RING; i++) {
    int status;
    must(wait(&status) > 0 && status == 0, "wait");
  }
}

/* Makes a thread, which ends at once, and joins it. */
static void* nothing(void* argument) {
  return argument;
}
static void threads(long rounds) {
  for (long i = 0; i < rounds; i++) {
    pthread_t thread;
    must(pthread_create(&thread, NULL, nothing, NULL) == 0, "pthread_create");
    must(pthread_join(thread, NULL) == 0, "pthread_join");
  }
}

/* Makes a process, which ends at once, and waits for it. */
static void forks(long rounds) {
  for (long i = 0; i < rounds; i++) {
    const pid_t child = fork();
    if (child == 0) _exit(0);
    int status;
    must(child > 0 && waitpid(child, &status, 0) == child && status == 0, "fork");
  }
}

/* Maps memory, writes to each of its pages and unmaps it. */
static void maps(long rounds) {
  enum { PAGE = 4096, PAGES = 8 };
  for (long i = 0; i < rounds; i++) {
    char* const memory =
        mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must(memory != MAP_FAILED, "mmap");
    for (int page = 0; page < PAGES; page++) memory[page * PAGE] = 1;
    must(munmap(memory, PAGES * PAGE) == 0, "munmap");
  }
}

/* Sends itself a signal, which it handles. */
static volatile sig_atomic_t handled;
static void handle(int number) {
  handled = number;
}
static void signals(long rounds) {
  must(signal(SIGUSR1, handle) != SIG_ERR, "signal");
  for (long i = 0; i < rounds; i++) {
    handled = 0;
    must(kill(getpid(), SIGUSR1) == 0 && handled == SIGUSR1, "kill");
  }
}

static const struct {
  const char* name;
  void (*run)(long rounds);
} loads[] = {
    {"pipes", pipes}, {"stacks", pipes_on_8_stacks}, {"paths", paths},
    {"ring", ring},   {"threads", threads},          {"forks", forks},
    {"maps", maps},   {"signals", signals},
};

int main(int argc, char** argv) {
  char* end = NULL;
  const long rounds = argc == 3 ? strtol(argv[2], &end, 10) : -1;
  for (size_t i = 0; rounds >= 0 && *end == '\0' && i < sizeof loads / sizeof *loads; i++) {
    if (strcmp(loads[i].name, argv[1]) != 0) continue;
    loads[i].run(rounds);
    return 0;
  }
  errx(2, "usage: loads NAME ROUNDS");
}
