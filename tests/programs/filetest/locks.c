/* Record locks (fcntl, lockf), and locks of open files (flock). */
#include <pthread.h>

#include "filetest.h"

static int ready[2]; /* a pipe on which a child reports that it has its locks, or what it sees */

static int set(int fd, int command, short type, off_t from, off_t size) {
  struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = from, .l_len = size};
  return fcntl(fd, command, &lock);
}

/* Asks F_GETLK for a lock that conflicts with an exclusive lock on `size` bytes from `from` on.
 * Returns 1 if the conflicting lock has the type `type`, covers `length` bytes from `first` on, and
 * belongs to `owner`. With the type F_UNLCK, returns 1 if no lock conflicts. A size or length of 0
 * means up to the end. */
static int is_locked(int fd, off_t from, off_t size, short type, off_t first, off_t length,
                     pid_t owner) {
  struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = from, .l_len = size};
  if (fcntl(fd, F_GETLK, &lock) < 0 || lock.l_type != type) return 0;
  if (type == F_UNLCK) return 1;
  return lock.l_start == first && lock.l_len == length && lock.l_pid == (short)owner;
}

static void tell(void) {
  char byte = 'r';
  write(ready[1], &byte, 1);
}
static void wait_told(void) {
  char byte;
  read(ready[0], &byte, 1);
}

/* Runs in a child process. Takes exclusive locks on [0, 40) and [50, 100), and a shared lock from
 * byte 200 to the end. */
static int holds_ranges(void* argument) {
  (void)argument;
  int fd = open("file", O_RDWR);
  int good = set(fd, F_SETLK, F_WRLCK, 0, 60) == 0 && set(fd, F_SETLK, F_WRLCK, 60, 40) == 0 &&
             set(fd, F_SETLK, F_UNLCK, 40, 10) == 0 && set(fd, F_SETLK, F_RDLCK, 200, 0) == 0;
  tell();
  pause();
  return !good;
}

static void ranges(void) {
  write_text("file", "0123456789");
  pid_t child = start_child_with(holds_ranges, NULL);
  wait_told();
  int fd = open("file", O_RDWR), reader = open("file", O_RDONLY);
  CHECK(is_locked(fd, 0, 0, F_WRLCK, 0, 40, child));
  CHECK(is_locked(fd, 45, 100, F_WRLCK, 50, 50, child));
  CHECK(is_locked(fd, 40, 10, F_UNLCK, 0, 0, 0) && is_locked(fd, 100, 100, F_UNLCK, 0, 0, 0));
  CHECK(is_locked(fd, 1 << 30, 1, F_RDLCK, 200, 0, child));
  CHECK(FAILS(set(fd, F_SETLK, F_WRLCK, 39, 2), EAGAIN) && set(fd, F_SETLK, F_WRLCK, 40, 10) == 0);
  CHECK(set(fd, F_SETLK, F_RDLCK, 300, 10) == 0 &&
        FAILS(set(fd, F_SETLK, F_WRLCK, 300, 10), EAGAIN));
  CHECK(FAILS(set(reader, F_SETLK, F_WRLCK, 120, 1), EBADF));
  CHECK(FAILS(set(fd, F_SETLK, 99, 0, 1), EINVAL) &&
        FAILS(set(fd, F_SETLK, F_WRLCK, -1, 1), EINVAL));
  struct flock back = {.l_type = F_WRLCK, .l_whence = SEEK_END, .l_start = 110, .l_len = -10};
  CHECK(fcntl(fd, F_SETLK, &back) == 0); /* locks [110, 120) of a file of ten bytes */
  /* The locks end with the process. */
  CHECK(kill(child, SIGKILL) == 0 && exit_code_of(child) == 128 + SIGKILL);
  CHECK(set(fd, F_SETLK, F_WRLCK, 0, 0) == 0);
  close(fd);
  close(reader);
}

/* Runs in a child process. Returns 1 if another process has locked any byte of the file. */
static int sees_lock(void* argument) {
  int fd = open(argument, O_RDWR);
  return !is_locked(fd, 0, 0, F_UNLCK, 0, 0, 0);
}
static int is_seen(void) {
  return exit_code_of(start_child_with(sees_lock, "file"));
}

static void closing(void) {
  int fd = open("file", O_RDWR), other = open("./file", O_RDONLY);
  CHECK(set(fd, F_SETLK, F_WRLCK, 5, 5) == 0 && is_seen() == 1);
  CHECK(set(fd, F_SETLK, F_UNLCK, 0, 0) == 0 && is_seen() == 0);
  CHECK(set(fd, F_SETLK, F_WRLCK, 5, 5) == 0 && close(other) == 0 && is_seen() == 0);
  CHECK(set(fd, F_SETLK, F_WRLCK, 5, 5) == 0 && dup2(0, fd) == fd && is_seen() == 0);
  close(fd);
  /* lockf locks bytes from the file's position on. */
  fd = open("file", O_RDWR);
  CHECK(lseek(fd, 3, SEEK_SET) == 3 && lockf(fd, F_TLOCK, 4) == 0 && lockf(fd, F_TEST, 0) == 0);
  CHECK(is_seen() == 1 && lockf(fd, F_ULOCK, 0) == 0 && is_seen() == 0);
  close(fd);
}

/* A child process tells which locks it sees on the first BYTES bytes of the file. */
enum { BYTES = 24 };
struct seen {
  char type, first, length; /* l_type, l_start and l_len of the lock that covers a byte */
};
static int tells_what_it_sees(void* argument) {
  int* asked = argument;
  int fd = open("file", O_RDWR);
  char question;
  while (read(asked[0], &question, 1) == 1 && question == '?') {
    struct seen seen[BYTES] = {0};
    for (int i = 0; i < BYTES; i++) {
      struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = i, .l_len = 1};
      if (fcntl(fd, F_GETLK, &lock) < 0) return 1;
      seen[i] = (struct seen){(char)lock.l_type, (char)lock.l_start, (char)lock.l_len};
    }
    if (write(ready[1], seen, sizeof seen) != sizeof seen) return 2;
  }
  return 0;
}

/* Sets locks at random and compares them with a simple model: a lock type for each byte, where
 * neighbouring bytes of the same type form one lock. */
static void random_ranges(void) {
  int asked[2], fd = open("file", O_RDWR);
  CHECK(pipe(asked) == 0);
  pid_t child = start_child_with(tells_what_it_sees, asked);
  char model[BYTES];
  memset(model, F_UNLCK, sizeof model);
  int wrong = 0;
  for (int round = 0; round < 150; round++) {
    const short types[] = {F_RDLCK, F_WRLCK, F_UNLCK};
    int first = (int)(random() % BYTES), size = 1 + (int)(random() % (BYTES - first));
    short type = types[random() % 3];
    wrong += set(fd, F_SETLK, type, first, size) != 0;
    memset(model + first, type, (size_t)size);
    struct seen seen[BYTES];
    write(asked[1], "?", 1);
    if (read(ready[0], seen, sizeof seen) != sizeof seen) break;
    for (int i = 0; i < BYTES; i++) {
      int from = i, to = i + 1;
      while (from > 0 && model[from - 1] == model[i]) from--;
      while (to < BYTES && model[to] == model[i]) to++;
      wrong += seen[i].type != model[i] ||
               (model[i] != F_UNLCK && (seen[i].first != from || seen[i].length != to - from));
    }
  }
  CHECK(wrong == 0);
  write(asked[1], ".", 1);
  CHECK(exit_code_of(child) == 0);
  close(asked[0]);
  close(asked[1]);
  close(fd);
}

static int waits_for_lock(void* argument) {
  (void)argument;
  int fd = open("file", O_RDWR);
  return set(fd, F_SETLKW, F_WRLCK, 0, 1) == 0 ? 7 : errno == EINTR ? 8 : 9;
}

static void on_alarm(int signal) {
  (void)signal;
}
static int waits_until_signal(void* argument) {
  struct sigaction action = {.sa_handler = on_alarm};
  sigaction(SIGUSR1, &action, NULL);
  return waits_for_lock(argument);
}

/* Locks byte 1, then waits for byte 0. */
static int waits_crosswise(void* argument) {
  (void)argument;
  int fd = open("file", O_RDWR);
  if (set(fd, F_SETLK, F_WRLCK, 1, 1) < 0) return 1;
  tell();
  return set(fd, F_SETLKW, F_WRLCK, 0, 1) == 0 ? 7 : 9;
}

static void waiting(void) {
  int fd = open("file", O_RDWR);
  CHECK(set(fd, F_SETLK, F_WRLCK, 0, 1) == 0);
  pid_t gets = start_child_with(waits_for_lock, NULL),
        killed = start_child_with(waits_for_lock, NULL),
        interrupted = start_child_with(waits_until_signal, NULL);
  wait_until_asleep(gets);
  wait_until_asleep(killed);
  wait_until_asleep(interrupted);
  CHECK(kill(killed, SIGKILL) == 0 && exit_code_of(killed) == 128 + SIGKILL);
  CHECK(kill(interrupted, SIGUSR1) == 0 && exit_code_of(interrupted) == 8);
  CHECK(set(fd, F_SETLK, F_UNLCK, 0, 1) == 0 && exit_code_of(gets) == 7);
  CHECK(set(fd, F_SETLK, F_WRLCK, 0, 1) == 0);
  pid_t other = start_child_with(waits_crosswise, NULL);
  wait_told();
  wait_until_asleep(other);
  CHECK(FAILS(set(fd, F_SETLKW, F_WRLCK, 1, 1), EDEADLK));
  CHECK(set(fd, F_SETLK, F_UNLCK, 0, 1) == 0 && exit_code_of(other) == 7);
  close(fd);
}

/* Locks byte 5. When a signal comes, waits for bytes 0 and 1; returns 1 if that would be a
 * deadlock. */
static int waits_for_two(void* argument) {
  (void)argument;
  int fd = open("file", O_RDWR), got;
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGUSR1);
  sigprocmask(SIG_BLOCK, &signals, NULL);
  if (set(fd, F_SETLK, F_WRLCK, 5, 1) < 0) return 2;
  tell();
  sigwait(&signals, &got);
  return FAILS(set(fd, F_SETLKW, F_WRLCK, 0, 2), EDEADLK);
}

/* Locks byte 1, then waits for byte 5. */
static int waits_for_fifth(void* argument) {
  (void)argument;
  int fd = open("file", O_RDWR);
  if (set(fd, F_SETLK, F_WRLCK, 1, 1) < 0) return 2;
  tell();
  return set(fd, F_SETLKW, F_WRLCK, 5, 1) == 0 ? 7 : 9;
}

/* Two locks block a process, and one of them closes a circle. The process must learn of the circle
 * at the latest when the other lock is gone. */
static void circle_behind_a_lock(void) {
  int fd = open("file", O_RDWR);
  pid_t both = start_child_with(waits_for_two, NULL);
  wait_told();
  wait_until_asleep(both);
  pid_t fifth = start_child_with(waits_for_fifth, NULL);
  wait_told();
  wait_until_asleep(fifth);
  CHECK(set(fd, F_SETLK, F_WRLCK, 0, 1) == 0 && kill(both, SIGUSR1) == 0);
  usleep(20000);
  wait_until_asleep(both);
  CHECK(set(fd, F_SETLK, F_UNLCK, 0, 1) == 0);
  CHECK(exit_code_of(both) == 1 && exit_code_of(fifth) == 7);
  close(fd);
}

/* Arguments and result of a thread that waits for a lock through a descriptor. */
struct waiter {
  int fd, error;
};
static void* waits_in_thread(void* argument) {
  struct waiter* waiter = argument;
  waiter->error = set(waiter->fd, F_SETLKW, F_WRLCK, 0, 1) == 0 ? 0 : errno;
  return NULL;
}
/* Runs in a child process. A thread waits for a lock on byte 0. The first thread tells that it has
 * started the other one, reads a byte from the pipe, and closes the other one's descriptor. */
static int closes_what_a_thread_waits_for(void* argument) {
  int* told = argument;
  close(told[2]); /* the inherited descriptor: the end of the process must not drop its locks */
  struct waiter waiter = {.fd = open("file", O_RDWR), .error = -1};
  pthread_t thread;
  char byte;
  if (pthread_create(&thread, NULL, waits_in_thread, &waiter) != 0) return 1;
  tell();
  if (read(told[0], &byte, 1) != 1 || close(waiter.fd) < 0) return 2;
  tell();
  pthread_join(thread, NULL);
  return waiter.error == EBADF ? 7 : 3;
}

/* A waiter whose descriptor another thread closes gets no lock, and so leaves none behind. */
static void closed_while_waiting(void) {
  int told[3];
  CHECK(pipe(told) == 0);
  int fd = told[2] = open("file", O_RDWR);
  CHECK(set(fd, F_SETLK, F_WRLCK, 0, 1) == 0);
  pid_t child = start_child_with(closes_what_a_thread_waits_for, told);
  wait_told();
  wait_until_asleep(child); /* both of its threads sleep */
  write(told[1], "c", 1);
  wait_told();
  CHECK(set(fd, F_SETLK, F_UNLCK, 0, 1) == 0);
  CHECK(exit_code_of(child) == 7);
  CHECK(set(fd, F_SETLK, F_WRLCK, 0, 1) == 0);
  close(fd);
  close(told[0]);
  close(told[1]);
}

static int takes_flock(void* argument) {
  for (int fd = 3; fd < 20; fd++) close(fd); /* the files that the child has inherited */
  int fd = open("file", O_RDONLY);
  return flock(fd, *(int*)argument) == 0 ? 7 : errno == EWOULDBLOCK ? 8 : 9;
}
static int unlocks(void* argument) {
  return flock(*(int*)argument, LOCK_UN);
}
static int tries(int operation) {
  operation |= LOCK_NB;
  return exit_code_of(start_child_with(takes_flock, &operation));
}

static void open_file_locks(void) {
  int fd = open("file", O_RDONLY), copy = dup(fd), wanted = LOCK_EX;
  CHECK(flock(fd, LOCK_SH) == 0 && tries(LOCK_SH) == 7 && tries(LOCK_EX) == 8);
  CHECK(flock(copy, LOCK_EX | LOCK_NB) == 0 &&
        tries(LOCK_SH) == 8); /* the open file owns the lock, not a descriptor */
  CHECK(close(fd) == 0 && tries(LOCK_SH) == 8);
  CHECK(exit_code_of(start_child_with(unlocks, &copy)) == 0 &&
        tries(LOCK_EX) == 7); /* the child has unlocked `copy` */
  CHECK(flock(copy, LOCK_EX) == 0);
  pid_t child = start_child_with(takes_flock, &wanted);
  wait_until_asleep(child);
  CHECK(is_seen() == 0); /* record locks and flock are independent */
  CHECK(close(copy) == 0 && exit_code_of(child) == 7);
  CHECK(FAILS(flock(999, LOCK_SH), EBADF) && FAILS(flock(0, 99), EINVAL));
  int ends[2];
  pipe(ends);
  CHECK(FAILS(set(ends[1], F_SETLK, F_WRLCK, 0, 1), EINVAL));
  close(ends[0]);
  close(ends[1]);
}

void test_locks(void) {
  if (pipe(ready) < 0) CHECK(!"pipe");
  ranges();
  random_ranges();
  closing();
  waiting();
  circle_behind_a_lock();
  closed_while_waiting();
  open_file_locks();
  close(ready[0]);
  close(ready[1]);
  CHECK(unlink("file") == 0);
}
