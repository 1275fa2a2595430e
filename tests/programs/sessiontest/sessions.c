/* Sessions: how they get and lose their terminals, and job control of their process groups. */
#include <poll.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <termios.h>

#include "sessiontest.h"

/* start_session() runs the function in a child that leads a new session. The session's terminal is
 * the slave of a pseudo-terminal, and `master` is the master of that pseudo-terminal. The child has
 * the slave as descriptors 0 and 2. Descriptor 1 is this program's output. in_session() also reads
 * the master until the child ends, and returns the child's exit code. */
static int master;
static pid_t start_session(int (*function)(void)) {
  int output = dup(STDOUT_FILENO);
  fflush(stdout);
  pid_t child = forkpty(&master, NULL, NULL, NULL);
  EXPECT(child >= 0);
  if (child == 0) {
    dup2(output, STDOUT_FILENO);
    close(output);
    _exit(run(function));
  }
  close(output);
  return child;
}
static int in_session(int (*function)(void)) {
  pid_t child = start_session(function);
  char buffer[256];
  while (read(master, buffer, sizeof buffer) > 0) continue;
  int code = exit_code_of(child);
  close(master);
  return code;
}

static volatile sig_atomic_t caught[NSIG];
static void catch_signal(int signal) {
  caught[signal]++;
}
/* Waits for the signal, for two seconds at most. True if the signal has come. */
static int comes(int signal) {
  for (int i = 0; i < 2000 && caught[signal] == 0; i++) usleep(1000);
  return caught[signal] != 0;
}
static int is_stopped(pid_t child, int signal) {
  int status;
  return waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status) &&
         WSTOPSIG(status) == signal;
}

static struct pair pair;

static int gets_a_terminal(void) {
  EXPECT(setsid() == getpid() && getsid(0) == getpid());
  EXPECT(open("/dev/tty", O_RDWR) == -1 && errno == ENXIO);
  EXPECT(tcgetsid(pair.slave) == -1 && errno == ENOTTY);
  EXPECT(tcgetpgrp(pair.slave) == -1 && errno == ENOTTY && tcgetpgrp(pair.master) == 0);
  EXPECT(tcsetpgrp(pair.slave, getpgrp()) == -1 && errno == ENOTTY);
  close(open(pair.name, O_RDWR | O_NOCTTY));
  EXPECT(tcgetsid(pair.slave) == -1);
  close(open(pair.name, O_RDWR));
  EXPECT(tcgetsid(pair.slave) == getpid() && tcgetpgrp(pair.slave) == getpgrp());
  EXPECT(tcgetpgrp(pair.master) == getpgrp());
  int tty = open("/dev/tty", O_RDWR);
  char name[32];
  EXPECT(tty >= 0 && ttyname_r(tty, name, sizeof name) == 0 && strcmp(name, pair.name) == 0);
  EXPECT(strcmp(ctermid(NULL), "/dev/tty") == 0);
  /* A session has at most one terminal. */
  struct pair second = open_pair();
  close(open(second.name, O_RDWR));
  EXPECT(tcgetsid(second.slave) == -1 && errno == ENOTTY);
  EXPECT(ioctl(second.slave, TIOCSCTTY, 0) == -1 && errno == EPERM);
  /* A child has the terminal too, until the child gives it up. */
  pid_t child = fork();
  if (child == 0) {
    int had = open("/dev/tty", O_RDWR) >= 0, left = ioctl(tty, TIOCNOTTY) == 0;
    _exit(had && left && open("/dev/tty", O_RDWR) == -1 && errno == ENXIO ? 0 : 1);
  }
  EXPECT(exit_code_of(child) == 0 && tcgetsid(tty) == getpid());
  EXPECT(signal(SIGHUP, catch_signal) != SIG_ERR && ioctl(tty, TIOCNOTTY) == 0);
  EXPECT(comes(SIGHUP) && open("/dev/tty", O_RDWR) == -1 && errno == ENXIO);
  EXPECT(types(pair.slave, "open still")); /* the terminal was not hung up */
  EXPECT(ioctl(second.slave, TIOCSCTTY, 0) == 0 && tcgetsid(second.slave) == getpid());
  return 0;
}

static pid_t owner_session;

static int tries_to_steal(void) {
  setsid();
  EXPECT(ioctl(pair.slave, TIOCSCTTY, 0) == -1 && errno == EPERM);
  EXPECT(tcsetpgrp(pair.slave, getpid()) == -1 && errno == ENOTTY);
  char byte;
  EXPECT(read(pair.slave, &byte, 1) == -1 && errno == EIO);
  pid_t child = fork();
  if (child == 0) {
    become(OTHER);
    setsid();
    struct termios modes;
    EXPECT(ioctl(pair.slave, TIOCSCTTY, 1) == -1 && errno == EPERM);
    EXPECT(tcgetattr(pair.slave, &modes) == 0);
    EXPECT(tcsetattr(pair.slave, TCSANOW, &modes) == -1 && errno == EPERM);
    /* Only root may take the console as a terminal, even while the console has no session. */
    int console = open("/dev/console", O_RDWR);
    EXPECT(tcgetsid(console) == -1 && ioctl(console, TIOCSCTTY, 0) == -1 && errno == EPERM);
    _exit(code(0));
  }
  EXPECT(exit_code_of(child) == 0 && tcgetpgrp(pair.master) == owner_session);
  EXPECT(ioctl(pair.slave, TIOCSCTTY, 1) == 0 && tcgetsid(pair.slave) == getpid());
  return 0;
}

static int has_a_terminal_to_steal(void) {
  owner_session = setsid();
  EXPECT(ioctl(pair.slave, TIOCSCTTY, 0) == 0);
  EXPECT(in_child(tries_to_steal) == 0);
  EXPECT(open("/dev/tty", O_RDWR) == -1 && errno == ENXIO);
  return 0;
}

static int is_typed_at(void) {
  signal(SIGINT, catch_signal);
  signal(SIGWINCH, catch_signal);
  struct winsize size = {.ws_row = 10, .ws_col = 20};
  EXPECT(ioctl(0, TIOCSWINSZ, &size) == 0 && comes(SIGWINCH));
  EXPECT(ioctl(0, TIOCSWINSZ, &size) == 0 && caught[SIGWINCH] == 1);
  memset(&size, 0, sizeof size);
  EXPECT(ioctl(0, TIOCGWINSZ, &size) == 0 && size.ws_row == 10 && size.ws_col == 20);
  EXPECT(types(2, "ready") && comes(SIGINT));
  return 0;
}

static int reads_in_background(void) {
  char byte;
  setpgid(0, 0);
  return (int)read(0, &byte, 1);
}
static int sets_modes_in_background(void) {
  struct termios modes;
  setpgid(0, 0);
  return tcgetattr(0, &modes) < 0 || tcsetattr(0, TCSANOW, &modes) < 0;
}
static int writes_in_background(void) {
  setpgid(0, 0);
  return write(0, "x", 1) != 1;
}
static int reads_ignoring_it(void) {
  char byte;
  setpgid(0, 0);
  signal(SIGTTIN, SIG_IGN);
  return read(0, &byte, 1) == -1 && errno == EIO ? 0 : 1;
}
static int writes_ignoring_it(void) {
  setpgid(0, 0);
  signal(SIGTTOU, SIG_IGN);
  return write(0, "x", 1) != 1;
}

/* Runs `function` in a child in a background group. `signal` must stop the child. The child must
 * complete after it is put in the foreground and continued. */
static void stops_by(int (*function)(void), int signal) {
  pid_t child = start_child(function);
  EXPECT(is_stopped(child, signal));
  EXPECT(tcsetpgrp(0, child) == 0 && kill(child, SIGCONT) == 0 && exit_code_of(child) == 0);
  sigset_t mask, before;
  sigemptyset(&mask);
  sigaddset(&mask, SIGTTOU);
  sigprocmask(SIG_BLOCK, &mask, &before);
  EXPECT(tcsetpgrp(0, getpgrp()) == 0);
  sigprocmask(SIG_SETMASK, &before, NULL);
}

static int has_jobs(void) {
  struct termios modes;
  EXPECT(tcgetattr(0, &modes) == 0);
  modes.c_lflag &= ~(tcflag_t)ICANON;
  modes.c_cc[VMIN] = 0;
  EXPECT(tcsetattr(0, TCSANOW, &modes) == 0);
  stops_by(reads_in_background, SIGTTIN);
  stops_by(sets_modes_in_background, SIGTTOU);
  EXPECT(in_child(writes_in_background) == 0);
  modes.c_lflag |= TOSTOP;
  EXPECT(tcsetattr(0, TCSANOW, &modes) == 0);
  stops_by(writes_in_background, SIGTTOU);
  EXPECT(in_child(reads_ignoring_it) == 0 && in_child(writes_ignoring_it) == 0);
  EXPECT(tcsetpgrp(0, 1) == -1 && errno == EPERM && tcsetpgrp(0, -1) == -1 && errno == EINVAL);
  return 0;
}

/* A pipe, to which orphaned processes write what they have observed. */
static int results[2];

static int waits_as_an_orphan(void) {
  setpgid(0, 0);
  signal(SIGHUP, catch_signal);
  signal(SIGCONT, catch_signal);
  char byte = 'r';
  if (write(results[1], &byte, 1) != 1) return 1;
  raise(SIGSTOP);
  byte = (char)('a' + (caught[SIGHUP] == 1 ? 1 : 0) + (caught[SIGCONT] == 1 ? 2 : 0));
  /* A stopped orphaned group would stay stopped, because no process would continue it. So the
   * kernel does not stop this process: the read fails, and SIGTSTP has no effect. */
  char other;
  if (read(0, &other, 1) == -1 && errno == EIO) byte += 4;
  raise(SIGTSTP);
  if (write(results[1], &byte, 1) != 1) return 1;
  return 0;
}

static int leaves_an_orphan(void) {
  setpgid(0, 0);
  pid_t child = start_child(waits_as_an_orphan);
  return !is_stopped(child, SIGSTOP);
}

static int has_orphans(void) {
  char byte;
  EXPECT(pipe(results) == 0);
  EXPECT(in_child(leaves_an_orphan) == 0);
  close(results[1]);
  EXPECT(read(results[0], &byte, 1) == 1 && byte == 'r');
  EXPECT(read(results[0], &byte, 1) == 1 && byte == 'a' + 7);
  return 0;
}

static int outlives_its_session(void) {
  char byte;
  signal(SIGHUP, catch_signal);
  EXPECT(types(results[1], "r") && comes(SIGHUP));
  /* The leader of the session has ended, so the session's terminal is hung up. */
  EXPECT(read(0, &byte, 1) == 0 && write(0, "x", 1) == -1 && errno == EIO);
  EXPECT(open("/dev/tty", O_RDWR) == -1 && errno == ENXIO);
  byte = (char)code('k');
  return write(results[1], &byte, 1) != 1;
}
static int ends_before_its_child(void) {
  signal(SIGHUP, SIG_IGN);
  start_child(outlives_its_session);
  return !reads(results[0], "r");
}

static int waits_for_hang_up(void) {
  char byte;
  signal(SIGHUP, catch_signal);
  close(master);
  EXPECT(types(2, "ready") && comes(SIGHUP));
  EXPECT(read(0, &byte, 1) == 0 && open("/dev/tty", O_RDWR) == -1 && errno == ENXIO);
  return 0;
}

void test_sessions(void) {
  pair = open_pair();
  EXPECT(in_child(gets_a_terminal) == 0);
  close_pair(&pair);
  pair = open_pair();
  EXPECT(in_child(has_a_terminal_to_steal) == 0);
  close_pair(&pair);

  pid_t child = start_session(is_typed_at);
  EXPECT(reads(master, "ready") && types(master, "\x03"));
  EXPECT(exit_code_of(child) == 0);
  close(master);

  EXPECT(in_session(has_jobs) == 0);
  EXPECT(in_session(has_orphans) == 0);

  char byte = 0;
  EXPECT(pipe(results) == 0);
  EXPECT(in_session(ends_before_its_child) == 0);
  close(results[1]);
  EXPECT(read(results[0], &byte, 1) == 1 && byte == 'k');
  close(results[0]);

  child = start_session(waits_for_hang_up);
  EXPECT(reads(master, "ready") && close(master) == 0);
  EXPECT(exit_code_of(child) == 0);
}

/* /dev/fd, /dev/stdin and /dev/full. */
static int has_standard_files(void) {
  char text[16], name[32];
  int ends[2];
  EXPECT(pipe(ends) == 0 && dup2(ends[0], STDIN_FILENO) == STDIN_FILENO);
  EXPECT(types(ends[1], "through"));
  int in = open("/dev/stdin", O_RDONLY);
  EXPECT(in > ends[1] && read(in, text, sizeof text) == 7);
  snprintf(name, sizeof name, "/dev/fd/%d", ends[1]);
  int out = open(name, O_WRONLY | O_TRUNC | O_CLOEXEC);
  EXPECT(out > in && (fcntl(out, F_GETFD) & FD_CLOEXEC) && types(out, "x") && reads(in, "x"));
  EXPECT(open(name, O_RDONLY) == -1 && errno == EACCES);
  EXPECT(open("/dev/fd/77", O_RDONLY) == -1 && errno == ENOENT);
  EXPECT(open("/dev/fd/01", O_RDONLY) == -1 && open("/dev/fd/x", O_RDONLY) == -1);
  struct stat status;
  EXPECT(stat(name, &status) == 0 && S_ISFIFO(status.st_mode));
  /* Opening /dev/fd/N gives a second descriptor of the open file that descriptor N has, so both
   * descriptors share one offset. The file stays open when descriptor N is closed. */
  int fd = open("/etc/passwd", O_RDONLY);
  snprintf(name, sizeof name, "/dev/fd/%d", fd);
  int same = open(name, O_RDONLY);
  EXPECT(lseek(fd, 5, SEEK_SET) == 5 && lseek(same, 0, SEEK_CUR) == 5);
  EXPECT(open(name, O_RDWR) == -1 && errno == EACCES);
  EXPECT(close(fd) == 0 && read(same, text, 1) == 1 && stat(name, &status) == -1);
  fd = open("/dev/full", O_RDWR);
  EXPECT(fd >= 0 && read(fd, text, 4) == 4 && text[3] == 0);
  EXPECT(write(fd, "x", 1) == -1 && errno == ENOSPC);
  return 0;
}

void test_files(void) {
  EXPECT(in_child(has_standard_files) == 0);
}
