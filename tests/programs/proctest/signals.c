/* Handlers, masks, restarted calls, stopping, and killing a process in any state. */
#include "proctest.h"

static volatile int caught, last_caught, depth, deepest;
static volatile double noise;

static void count(int signal) {
  caught++;
  last_caught = signal;
  noise = noise * 1.5 + signal; /* overwrites floating point registers */
}

static void set_handler(int signal, void (*function)(int), int flags) {
  struct sigaction action = {.sa_handler = function, .sa_flags = flags};
  EXPECT(sigaction(signal, &action, NULL) == 0);
}

static void raise_again(int signal) {
  depth++;
  if (depth > deepest) deepest = depth;
  if (caught++ < 3) raise(signal);
  depth--;
}

static int signals_parent(void* ms) {
  pause_ms((int)(long)ms);
  kill(getppid(), SIGUSR1);
  return 0;
}

static int writes_later(void* argument) {
  int* ends = argument;
  pause_ms(20);
  kill(getppid(), SIGUSR1);
  pause_ms(20);
  write(ends[1], "x", 1);
  return 0;
}

/* Starts a child that runs writes_later(). Returns the reading end of the child's pipe. A read
 * reports the end of file once the child has ended. */
static int start_writer(pid_t* child) {
  int ends[2];
  EXPECT(pipe(ends) == 0);
  *child = start_child_with(writes_later, ends);
  close(ends[1]);
  return ends[0];
}

/* A handler of SIGCHLD. It adds kGone to `caught`, and the other handlers add 1. `caught % kGone`
 * is then the number of signals that a child has sent, no matter when SIGCHLD comes. */
enum { kGone = 1000 };
static void gone(int signal) {
  (void)signal;
  caught += kGone;
}

static int writes_to_nobody(void* argument) {
  (void)argument;
  int ends[2];
  pipe(ends);
  close(ends[0]);
  write(ends[1], "x", 1);
  return 1;
}

static int exits(void* argument) {
  return (int)(long)argument;
}

/* Registers and floating point survive a handler. */
static void test_handler_registers(void) {
  caught = 0;
  set_handler(SIGCHLD, gone, SA_RESTART);
  pid_t child = start_child_with(signals_parent, (void*)10);
  volatile int* flag = &caught;
  long bad = 0;
  __asm__ volatile(
      "movq $0x1111, %%rbx; movq $0x2222, %%r12; movq $0x3333, %%r13; movq $0x4444, %%r8; movq "
      "$0x5555, %%rdx\n"
      "movq $0x123456789, %%rax; movq %%rax, %%xmm5; movq %%rax, %%xmm15\n"
      "1: cmpl $0, (%1); je 1b\n"
      "xorl %%eax, %%eax; cmpq $0x1111, %%rbx; jne 2f; cmpq $0x2222, %%r12; jne 2f; cmpq $0x3333, "
      "%%r13; jne 2f\n"
      "cmpq $0x4444, %%r8; jne 2f; cmpq $0x5555, %%rdx; jne 2f\n"
      "movq $0x123456789, %%rcx; movq %%xmm5, %%rsi; cmpq %%rcx, %%rsi; jne 2f; movq %%xmm15, "
      "%%rsi; cmpq %%rcx, "
      "%%rsi; je 3f\n"
      "2: incl %%eax\n"
      "3:"
      : "=&a"(bad)
      : "D"(flag)
      : "rbx", "r12", "r13", "r8", "rdx", "rcx", "rsi", "xmm5", "xmm15", "cc", "memory");
  EXPECT(bad == 0 && caught % kGone == 1);
  status_of(child);
  signal(SIGCHLD, SIG_DFL);
}

void test_signals(void) {
  char byte;
  set_handler(SIGUSR1, count, 0);
  raise(SIGUSR1);
  EXPECT(caught == 1 && last_caught == SIGUSR1);
  test_handler_registers();

  /* A signal is blocked while its handler runs, unless SA_NODEFER is set. */
  caught = depth = deepest = 0;
  set_handler(SIGUSR2, raise_again, 0);
  raise(SIGUSR2);
  EXPECT(caught == 4 && deepest == 1);
  caught = depth = deepest = 0;
  set_handler(SIGUSR2, raise_again, SA_NODEFER);
  raise(SIGUSR2);
  EXPECT(caught == 4 && deepest == 4);

  /* Masks block and unblock signals. */
  uint64_t mask = 1u << SIGUSR1, old = 0;
  caught = 0;
  EXPECT(STELE_CALL(sigprocmask, 1, &mask, &old) == 0);
  raise(SIGUSR1);
  EXPECT(caught == 0);
  uint64_t none = 0;
  EXPECT(STELE_CALL(sigsuspend, &none) == -EINTR);
  EXPECT(caught == 1);
  EXPECT(STELE_CALL(sigprocmask, 2, &mask, &old) == 0 && old == mask);
  EXPECT(STELE_CALL(sigprocmask, 9, &mask, 0) == -EINVAL);
  mask = ~0ul;
  STELE_CALL(sigprocmask, 0, &mask, 0);
  STELE_CALL(sigprocmask, 0, &none, &old);
  EXPECT(!(old & (1 << SIGKILL | 1 << SIGSTOP)));
  struct sigaction action = {.sa_handler = count};
  EXPECT(sigaction(SIGKILL, &action, NULL) < 0 && sigaction(SIGSTOP, &action, NULL) < 0 &&
         sigaction(99, &action, NULL) < 0);

  /* Interrupted calls, with and without SA_RESTART. */
  pid_t child;
  int from = start_writer(&child);
  EXPECT(read(from, &byte, 1) < 0 && errno == EINTR);
  EXPECT(read(from, &byte, 1) == 1);
  close(from);
  status_of(child);
  set_handler(SIGUSR1, count, SA_RESTART);
  caught = 0;
  from = start_writer(&child);
  EXPECT(read(from, &byte, 1) == 1 && caught == 1);
  close(from);
  status_of(child);
  child = start_child_with(signals_parent, (void*)10);
  struct abi_timespec second = {5, 0}, left = {0, 0};
  EXPECT(STELE_CALL(nanosleep, ABI_CLOCK_MONOTONIC, 0, &second, &left) == -EINTR && left.sec >= 3);
  status_of(child);
  EXPECT(STELE_CALL(kill, getpid(), 0) == 0 && STELE_CALL(kill, getpid(), 99) == -EINVAL &&
         STELE_CALL(kill, 31000, 0) == -ESRCH);

  /* A child's end sends SIGCHLD. If SIGCHLD is ignored, the child leaves no zombie. */
  caught = 0;
  set_handler(SIGCHLD, count, SA_RESTART);
  child = start_child_with(exits, (void*)9);
  EXPECT(WEXITSTATUS(status_of(child)) == 9 && caught == 1 && last_caught == SIGCHLD);
  signal(SIGCHLD, SIG_IGN);
  child = start_child_with(exits, (void*)9);
  EXPECT(STELE_CALL(wait4, child, 0, 0) == -ECHILD);
  signal(SIGCHLD, SIG_DFL);

  int status = in_child_with(writes_to_nobody, NULL);
  EXPECT(WIFSIGNALED(status) && WTERMSIG(status) == SIGPIPE);
  signal(SIGPIPE, SIG_IGN);
  EXPECT(WEXITSTATUS(in_child_with(writes_to_nobody, NULL)) == 1);
  signal(SIGPIPE, SIG_DFL);
  signal(SIGUSR1, SIG_DFL);
  signal(SIGUSR2, SIG_DFL);
}

static _Noreturn int spins(void* argument) {
  (void)argument;
  for (;;) continue;
}
static _Noreturn int sleeps(void* argument) {
  (void)argument;
  for (;;) pause_ms(100000);
}
static int reads(void* argument) {
  char byte;
  return (int)read(*(int*)argument, &byte, 1);
}
static _Noreturn int fills(void* argument) {
  static char block[65536];
  for (;;) write(*(int*)argument, block, sizeof block);
}
static int reads_nothing(void* argument) {
  (void)argument;
  pause_ms(1000);
  return 0;
}
static int waits(void* argument) {
  (void)argument;
  return status_of(start_child_with(reads_nothing, NULL));
}
static _Noreturn int suspends(void* argument) {
  (void)argument;
  uint64_t all = ~0ul;
  for (;;) STELE_CALL(sigsuspend, &all);
}
static _Noreturn int forks(void* argument) {
  (void)argument;
  for (;;) {
    pid_t pid = fork();
    if (pid == 0) _exit(0);
    status_of(pid);
  }
}
static int ignores(void* argument) {
  (void)argument;
  for (int i = 1; i < 32; i++) signal(i, SIG_IGN);
  return spins(NULL);
}

static int end_of(pid_t pid) {
  kill(pid, SIGKILL);
  int status = status_of(pid);
  return WIFSIGNALED(status) ? WTERMSIG(status) : -1;
}

enum { kMuch = 32 << 20 };
static int writes_much(void* argument) {
  return write(*(int*)argument, calloc(1, kMuch), kMuch) == kMuch;
}

/* A signal ends a write to a file before all bytes are written. The write may be complete before
 * the signal comes, so there are several attempts. */
static void test_kill_writer(void) {
  int cut = 0;
  for (int i = 0; i < 20 && !cut; i++) {
    int fd = open("/tmp/much", O_RDWR | O_CREAT | O_TRUNC, 0600);
    EXPECT(fd >= 0 && unlink("/tmp/much") == 0);
    pid_t child = start_child_with(writes_much, &fd);
    struct stat stat = {.st_size = 0};
    int status = 0;
    pid_t ended = 0;
    while (fstat(fd, &stat) == 0 && stat.st_size == 0 && ended == 0)
      ended = waitpid(child, &status, WNOHANG);
    EXPECT(ended == 0); /* the file grows before the writer ends */
    if (ended == 0) {
      kill(child, SIGTERM);
      status = status_of(child);
    }
    EXPECT(fstat(fd, &stat) == 0);
    cut = WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM && stat.st_size < kMuch;
    close(fd);
  }
  EXPECT(cut);
}

static int goes_on_in_an_orphaned_group(void* argument) {
  (void)argument;
  EXPECT(setsid() == getpid());
  raise(SIGTSTP);
  raise(SIGTTIN);
  raise(SIGTTOU);
  return 7;
}

void test_kill(void) {
  test_kill_writer();
  int ends[2], full[2];
  EXPECT(pipe(ends) == 0 && pipe(full) == 0);
  struct {
    int (*function)(void*);
    void* argument;
  } kinds[] = {{spins, NULL}, {sleeps, NULL},  {reads, &ends[0]}, {suspends, NULL},
               {forks, NULL}, {ignores, NULL}, {waits, NULL},     {fills, &full[1]}};
  for (int delay = 0; delay <= 20; delay += 10) {
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
      pid_t child = start_child_with(kinds[i].function, kinds[i].argument);
      if (delay) pause_ms(delay);
      EXPECT(end_of(child) == SIGKILL);
    }
  }

  /* A child is stopped, continued, and killed while it is stopped. */
  pid_t child = start_child_with(sleeps, NULL);
  kill(child, SIGSTOP);
  int status = 0;
  EXPECT(waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status) &&
         WSTOPSIG(status) == SIGSTOP);
  EXPECT(STELE_CALL(wait4, child, 0, ABI_WNOHANG | ABI_WUNTRACED) == 0);
  kill(child, SIGCONT);
  EXPECT(STELE_CALL(wait4, child, 0, ABI_WNOHANG) == 0);
  EXPECT(setpgid(child, child) == 0);
  kill(child, SIGTSTP);
  EXPECT(waitpid(child, &status, WUNTRACED) == child && WSTOPSIG(status) == SIGTSTP);
  EXPECT(end_of(child) == SIGKILL);

  /* A process in an orphaned group does not stop, because no process would continue it. */
  child = start_child_with(goes_on_in_an_orphaned_group, NULL);
  EXPECT(waitpid(child, &status, WUNTRACED) == child && WIFEXITED(status) &&
         WEXITSTATUS(status) == 7);
  if (WIFSTOPPED(status)) end_of(child);

  /* Kills a whole process group. */
  pid_t children[5];
  for (int i = 0; i < 5; i++) {
    children[i] = start_child_with(i % 2 ? spins : sleeps, NULL);
    EXPECT(setpgid(children[i], children[0]) == 0);
  }
  EXPECT(kill(-children[0], SIGTERM) == 0);
  for (int i = 0; i < 5; i++) {
    status = status_of(children[i]);
    EXPECT(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
  }
  EXPECT(kill(-children[0], SIGTERM) < 0 && errno == ESRCH);
  for (int i = 0; i < 2; i++) {
    close(ends[i]);
    close(full[i]);
  }
}
