/* Pseudo-terminals: opening /dev/ptmx creates a pair and gives its master; /dev/pts/N is the slave.
 */
#include <pty.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <utmp.h>

#define NAME_SIZE 32

int posix_openpt(int flags) {
  return open("/dev/ptmx", flags);
}

/* Changes nothing: the kernel gives the slave to the user who opened the master. */
int grantpt(int master) {
  int number;
  return ioctl(master, TIOCGPTN, &number);
}

int unlockpt(int master) {
  int locked = 0;
  return ioctl(master, TIOCSPTLCK, &locked);
}

int ptsname_r(int master, char* name, size_t size) {
  int number;
  if (ioctl(master, TIOCGPTN, &number) < 0) return errno;
  int length = snprintf(name, size, "/dev/pts/%d", number);
  if (length >= 0 && (size_t)length < size) return 0;
  errno = ERANGE;
  return ERANGE;
}

char* ptsname(int master) {
  static char name[NAME_SIZE];
  return ptsname_r(master, name, sizeof name) == 0 ? name : NULL;
}

int openpty(int* master, int* slave, char* name, const struct termios* modes,
            const struct winsize* size) {
  char path[NAME_SIZE];
  int pair = posix_openpt(O_RDWR | O_NOCTTY), end = -1;
  if (pair < 0) return -1;
  if (unlockpt(pair) == 0 && ptsname_r(pair, path, sizeof path) == 0)
    end = open(path, O_RDWR | O_NOCTTY);
  if (end < 0) {
    int error = errno;
    close(pair);
    errno = error;
    return -1;
  }
  if (modes != NULL) tcsetattr(end, TCSAFLUSH, modes);
  if (size != NULL) ioctl(end, TIOCSWINSZ, size);
  if (name != NULL) strcpy(name, path);
  *master = pair;
  *slave = end;
  return 0;
}

int login_tty(int fd) {
  setsid();
  if (ioctl(fd, TIOCSCTTY, 0) < 0) return -1;
  for (int to = STDIN_FILENO; to <= STDERR_FILENO; to++) {
    if (dup2(fd, to) < 0) return -1;
  }
  if (fd > STDERR_FILENO) close(fd);
  return 0;
}

pid_t forkpty(int* master, char* name, const struct termios* modes, const struct winsize* size) {
  int pair, slave;
  if (openpty(&pair, &slave, name, modes, size) < 0) return -1;
  pid_t child = fork();
  if (child == 0) {
    close(pair);
    if (login_tty(slave) < 0) _exit(1);
    return 0;
  }
  int error = errno;
  close(slave);
  if (child < 0) {
    close(pair);
    errno = error;
  } else {
    *master = pair;
  }
  return child;
}
