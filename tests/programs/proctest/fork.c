/* fork, copy on write, wait, groups. */
#include "proctest.h"

static volatile int shared = 1;
static char large[1 << 20];

static int writes_its_copy(void* argument) {
  volatile int* local = argument;
  EXPECT(shared == 1 && *local == 10);
  shared = 2;
  *local = 20;
  for (size_t i = 0; i < sizeof large; i += 512) {
    EXPECT(large[i] == 'p');
    large[i] = 'c';
  }
  return 3;
}

static int makes_grandchildren(void* argument) {
  long depth = (long)argument;
  shared++;
  if (depth == 0) return shared;
  return WEXITSTATUS(in_child_with(makes_grandchildren, (void*)(depth - 1)));
}

static int leaves_orphan(void* argument) {
  int* ends = argument;
  if (fork() == 0) {
    pause_ms(30);
    char parent = (char)getppid();
    write(ends[1], &parent, 1);
    _exit(0);
  }
  return 0;
}

static int sleeps(void* argument) {
  pause_ms((int)(long)argument);
  return 5;
}

static int new_session(void* argument) {
  (void)argument;
  EXPECT(setsid() == getpid());
  EXPECT(getpgrp() == getpid());
  EXPECT(STELE_CALL(setsid) == -EPERM);
  EXPECT(STELE_CALL(setpgid, 0, 0) == -EPERM);
  return 0;
}

static int leads_a_group(void* argument) {
  (void)argument;
  EXPECT(setpgid(0, 0) == 0);
  EXPECT(setsid() < 0 && errno == EPERM);
  return 0;
}

/* Makes a process group and forks 100 children in the group. The children never end by
 * themselves. */
static int makes_children(void* argument) {
  int* ready = argument;
  EXPECT(setpgid(0, 0) == 0);
  for (int i = 0; i < 100; i++) {
    if (fork() == 0)
      for (;;) pause_ms(1000);
    if (i == 2) write(ready[1], "", 1);
  }
  for (;;) pause_ms(1000);
  return 0;
}

/* A child that is forked while its process group is killed must be killed, too. */
static void kill_group_that_forks(void) {
  for (int i = 0; i < 20; i++) {
    int ready[2];
    char byte;
    EXPECT(pipe(ready) == 0);
    pid_t leader = start_child_with(makes_children, ready);
    close(ready[1]);
    EXPECT(read(ready[0], &byte, 1) == 1);
    EXPECT(kill(-leader, SIGKILL) == 0);
    EXPECT(status_of(leader) == SIGKILL);
    /* The pipe reports the end of file once the last process of the group has ended. */
    struct abi_pollfd end = {ready[0], ABI_POLLIN, 0};
    int ended = poll_ms(&end, 1, 20000) == 1;
    EXPECT(ended);
    kill(-leader, SIGKILL);
    close(ready[0]);
    if (!ended) break;
  }
}

static volatile int caught;
static void count(int signal) {
  (void)signal;
  caught++;
}

enum { kSendsForSeconds = 5 };
static int sends_signals(void* argument) {
  time_t end = time(NULL) + kSendsForSeconds;
  while (time(NULL) < end) {
    for (int i = 0; i < 1000; i++) kill(getppid(), SIGUSR1);
  }
  (void)argument;
  return 0;
}

/* A slow fork completes although signals arrive all the time. */
static void fork_under_signals(void) {
  enum { kSize = 64 << 20 };
  char* memory = malloc(kSize);
  EXPECT(memory != NULL);
  if (!memory) return;
  memset(memory, 1, kSize);
  struct sigaction action = {.sa_handler = count}, before;
  EXPECT(sigaction(SIGUSR1, &action, &before) == 0);
  pid_t sender = start_child_with(sends_signals, NULL);
  while (caught == 0) pause_ms(1);
  for (int i = 0; i < 3; i++) {
    pid_t child = fork();
    if (child == 0) _exit(5);
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
    EXPECT(WEXITSTATUS(status) == 5);
  }
  EXPECT(STELE_CALL(wait4, sender, 0, ABI_WNOHANG) == 0); /* the sender is still running */
  kill(sender, SIGKILL);
  status_of(sender);
  sigaction(SIGUSR1, &before, NULL);
  free(memory);
}

static int gives_up_root(void* argument) {
  (void)argument;
  EXPECT(STELE_CALL(setresgid, 100, 100, 100) == 0);
  EXPECT(STELE_CALL(setresuid, 1000, 1000, 1000) == 0);
  EXPECT(getuid() == 1000 && getgid() == 100);
  for (int i = 0; i < 3; i++) {
    const int ids[] = {i == 0 ? 0 : -1, i == 1 ? 0 : -1, i == 2 ? 0 : -1};
    EXPECT(STELE_CALL(setresuid, ids[0], ids[1], ids[2]) == -EPERM);
    EXPECT(STELE_CALL(setresgid, ids[0], ids[1], ids[2]) == -EPERM);
  }
  EXPECT(STELE_CALL(setgroups, 0, 0) == -EPERM);
  EXPECT(STELE_CALL(kill, 1, SIGTERM) == -EPERM);
  EXPECT(STELE_CALL(kill, getppid(), 0) == -EPERM);
  EXPECT(CALL_AT(open, "/bin/xyz", O_WRONLY | O_CREAT, 0644) < 0);
  return 0;
}

void test_fork(void) {
  volatile int local = 10;
  memset(large, 'p', sizeof large);
  int status = in_child_with(writes_its_copy, (void*)&local);
  EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 3);
  EXPECT(shared == 1 && local == 10 && large[0] == 'p' && large[sizeof large - 512] == 'p');
  /* Tests several generations of processes, and writes of the parent while a child lives. */
  status = in_child_with(makes_grandchildren, (void*)10);
  EXPECT(WEXITSTATUS(status) == 12);
  for (int i = 0; i < 20; i++) {
    pid_t child = start_child_with(sleeps, (void*)5);
    for (size_t j = 0; j < sizeof large; j += 4096) large[j] = (char)i;
    EXPECT(WEXITSTATUS(status_of(child)) == 5);
  }

  EXPECT(STELE_CALL(wait4, -1, 0, 0) == -ECHILD);
  EXPECT(STELE_CALL(wait4, 1, 0, 0) == -ECHILD);
  pid_t child = start_child_with(sleeps, (void*)50);
  EXPECT(STELE_CALL(wait4, child, 0, ABI_WNOHANG) == 0);
  EXPECT(WEXITSTATUS(status_of(child)) == 5);
  EXPECT(STELE_CALL(wait4, child, 0, 0) == -ECHILD);

  pid_t children[20];
  for (int i = 0; i < 20; i++) children[i] = start_child_with(sleeps, (void*)(long)(i % 3));
  for (int i = 19; i >= 0; i--) EXPECT(WEXITSTATUS(status_of(children[i])) == 5);

  int ends[2];
  EXPECT(pipe(ends) == 0);
  EXPECT(in_child_with(leaves_orphan, ends) == 0);
  close(ends[1]); /* so that the read below returns even if the orphan was killed */
  char parent = 0;
  EXPECT(read(ends[0], &parent, 1) == 1 && parent == 1);
  close(ends[0]);

  EXPECT(in_child_with(new_session, NULL) == 0);
  EXPECT(in_child_with(leads_a_group, NULL) == 0);
  kill_group_that_forks();
  fork_under_signals();
  child = start_child_with(sleeps, (void*)40);
  EXPECT(STELE_CALL(setpgid, child, child) == 0);
  EXPECT(STELE_CALL(getpgid, child, 0) == child);
  EXPECT(STELE_CALL(wait4, 0, 0, ABI_WNOHANG) == -ECHILD); /* no child in the caller's group */
  EXPECT(STELE_CALL(wait4, -child, 0, 0) == child);
  EXPECT(STELE_CALL(setpgid, 1, 1) == -ESRCH && STELE_CALL(getpgid, 30000, 0) == -ESRCH);

  EXPECT(in_child_with(gives_up_root, NULL) == 0);
}
