/* Processes, programs, signals and memory. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "stress.h"

enum { PAGE = 4096 };

/* Forks children, some of which fork, too. Some processes are killed, some end by themselves, and
 * some lose their parent. */
static void branch(unsigned depth) {
  pid_t children[4];
  unsigned count = 1 + (unsigned)random_below(4);
  for (unsigned i = 0; i < count; i++) {
    children[i] = spawn();
    if (children[i] != 0) continue;
    if (random_one_in(8)) setsid();
    if (random_one_in(8)) setpgid(0, 0);
    if (depth > 0 && random_one_in(2)) branch(depth - 1);
    if (random_one_in(3)) pause_us(random_below(3000));
    if (random_one_in(8)) abort();
    _exit((int)random_below(256));
  }
  for (unsigned i = 0; i < count; i++) {
    if (random_one_in(8)) continue; /* does not wait for this child */
    finish(children[i]);
  }
}

void tree(void) {
  branch((unsigned)random_below(4));
}

static void run_program(void) {
  static char* const commands[][5] = {
      {"/bin/true", NULL},
      {"/bin/ls", "-l", "/proc", NULL},
      {"/bin/cat", "/proc/self/status", "/proc/stat", NULL},
      {"/bin/sh", "-c", "ls /bin | cat | wc -l", NULL},
      {"/bin/sh", "-c", "for i in 1 2 3 4 5; do (echo $i) | cat; done; exit 3", NULL},
      {"/bin/sh", "-c", "echo >/tmp/stress/$$; cat /tmp/stress/$$; rm /tmp/stress/$$", NULL},
      {"/bin/sh", "-c", "kill -9 $$", NULL},
      {"/bin/ps", NULL},
      {"/bin/find", "/bin", "-name", "s*", NULL},
      {"/etc/profile", NULL},
      {"/bin", NULL},
      {"/bin/nothing", NULL},
      {"#mem/kmemstat", NULL},
      {"/bin/leakdemo", "clean", NULL},
      {"/bin/stress", NULL},
  };
  int null = open("/dev/null", O_RDWR);
  for (int fd = 0; null >= 0 && fd < 3; fd++) dup2(null, fd);
  if (null > 2) close(null);
  char* const* command = commands[random_below(sizeof commands / sizeof *commands)];
  char* environment[] = {"PATH=/bin", NULL};
  execve(command[0], command, environment);
  _exit(127);
}

void programs(void) {
  pid_t child = spawn();
  if (child == 0) run_program();
  finish(child);
}

static volatile sig_atomic_t caught;

static void on_signal(int number) {
  caught += number;
}

void signals(void) {
  pid_t child = spawn();
  if (child == 0) {
    struct sigaction action = {.sa_handler = on_signal,
                               .sa_flags = random_one_in(2) ? SA_RESTART : 0};
    static const int numbers[] = {SIGUSR1, SIGUSR2, SIGHUP, SIGCHLD, SIGTERM};
    for (unsigned i = 0; i < 5; i++) sigaction(numbers[i], &action, NULL);
    sigset_t mask, none;
    sigemptyset(&none);
    sigemptyset(&mask);
    sigaddset(&mask, SIGUSR1);
    pid_t parent = getpid(), sender = spawn();
    if (sender == 0) {
      for (int i = 0; i < 200; i++) kill(parent, numbers[random_below(5)]);
      kill(parent, SIGUSR1);
      _exit(0);
    }
    for (int i = 0; i < 20; i++) {
      sigprocmask(random_one_in(2) ? SIG_BLOCK : SIG_UNBLOCK, &mask, NULL);
      pause_us(random_below(2000));
    }
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (sender > 0 && random_one_in(2)) kill(sender, SIGSTOP), kill(sender, SIGCONT);
    finish(sender);
    _exit(0);
  }
  if (child > 0 && random_one_in(2)) {
    pause_us(random_below(5000));
    kill(child, SIGSTOP);
    waitpid(child, NULL, WUNTRACED | WNOHANG);
    kill(child, SIGCONT);
  }
  finish(child);
}

static unsigned char pattern_at(size_t at, unsigned key) {
  return (unsigned char)(at / 64 * 31 + key);
}

/* Maps a range, writes to it, forks, compares the range, and unmaps it in two pieces. */
void memory(void) {
  size_t pages = 1 + random_below(random_one_in(4) ? 512 : 32);
  unsigned key = (unsigned)random_any();
  unsigned char* range =
      mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (range == MAP_FAILED) return;
  for (size_t at = 0; at < pages * PAGE; at += 64 * (1 + random_below(8))) range[at] = 0;
  for (size_t i = 0; i < pages; i++) range[i * PAGE] = pattern_at(i * PAGE, key);
  pid_t child = spawn();
  if (child == 0) {
    for (size_t i = 0; i < pages; i++) {
      if (range[i * PAGE] != pattern_at(i * PAGE, key)) failed("a child's page %zu differs", i);
      if (random_one_in(2)) range[i * PAGE]++;
    }
    _exit(0);
  }
  for (size_t i = 0; i < pages; i++)
    if (range[i * PAGE] != pattern_at(i * PAGE, key)) failed("page %zu has changed", i);
  size_t cut = random_below(pages);
  if (cut > 0) munmap(range, cut * PAGE);
  for (size_t i = cut; i < pages; i++)
    if (range[i * PAGE] != pattern_at(i * PAGE, key)) failed("page %zu has changed", i);
  munmap(range + cut * PAGE, (pages - cut) * PAGE);
  finish(child);
  void* blocks[64];
  for (int i = 0; i < 64; i++) blocks[i] = malloc(random_below(2000));
  for (int i = 0; i < 64; i++) free(blocks[i]);
}

/* The kernel copies data from and to pages that are not present yet. */
void copies(void) {
  enum { LARGEST = 100000, HOLE = LARGEST + 10 * PAGE };
  size_t size = 1 + random_below(LARGEST), end = (size + PAGE - 1) / PAGE * PAGE;
  unsigned char* range =
      mmap(NULL, end + HOLE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (range == MAP_FAILED) return;
  munmap(range + end, HOLE); /* some of the calls below reach beyond the end of the range */
  int zero = open("/dev/zero", O_RDONLY | O_CLOEXEC),
      null = open("/dev/null", O_WRONLY | O_CLOEXEC);
  ssize_t got = read(zero, range + random_below(size), 1 + random_below(size));
  (void)got;
  write(null, range, size);
  write(null, range, size + 10 * PAGE);
  read(zero, (void*)8, 100);
  for (size_t i = 0; i < size; i += 509)
    if (range[i] != 0) failed("byte %zu of zeros is %u", i, range[i]);
  close(zero);
  close(null);
  munmap(range, size);
}

void faults(void) {
  pid_t child = spawn();
  if (child == 0) {
    static const uintptr_t addresses[] = {
        0, 8, 0x7ffffffff000, 0xffff800000000000, 0xffffffff80100000, 0x800000000000};
    volatile char* at = (volatile char*)addresses[random_below(6)];
    switch (random_below(4)) {
      case 0:
        *at = 1;
        break;
      case 1:
        (void)*at;
        break;
      case 2:
        __builtin_trap();
      default:
        ((void (*)(void))at)();
    }
    _exit(0);
  }
  finish(child);
}

bool become_user(void) {
  return setgid(65534) == 0 && setuid(65534) == 0;
}

/* Does activities as a user other than root. */
void user(void) {
  pid_t child = spawn();
  if (child == 0) {
    if (become_user())
      for (unsigned i = 1 + (unsigned)random_below(6); i > 0; i--) act();
    _exit(0);
  }
  finish(child);
}
