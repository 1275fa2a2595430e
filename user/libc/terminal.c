/* Terminals: the console, and the slaves of pseudo-terminals (pty.c). */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include "syscall.h"

#define NAME_SIZE 32

int ioctl(int fd, int request, ...) {
  va_list arguments;
  va_start(arguments, request);
  void* argument = va_arg(arguments, void*);
  va_end(arguments);
  return (int)SYSCALL(ioctl, fd, request, argument);
}

int tcgetattr(int fd, struct termios* terminal) {
  return ioctl(fd, ABI_TCGETS, terminal);
}

int tcsetattr(int fd, int when, const struct termios* terminal) {
  static const int requests[] = {
      [TCSANOW] = ABI_TCSETS, [TCSADRAIN] = ABI_TCSETSW, [TCSAFLUSH] = ABI_TCSETSF};
  if (when < TCSANOW || when > TCSAFLUSH) {
    errno = EINVAL;
    return -1;
  }
  return ioctl(fd, requests[when], terminal);
}

pid_t tcgetpgrp(int fd) {
  int group;
  return ioctl(fd, ABI_TCGPGRP, &group) < 0 ? -1 : group;
}
int tcsetpgrp(int fd, pid_t group) {
  return ioctl(fd, ABI_TCSPGRP, &group);
}
pid_t tcgetsid(int fd) {
  int session;
  return ioctl(fd, ABI_TCGSID, &session) < 0 ? -1 : session;
}
int tcsetwinsize(int fd, const struct winsize* size) {
  return ioctl(fd, ABI_TCSWINSZ, size);
}
int tcgetwinsize(int fd, struct winsize* size) {
  return ioctl(fd, ABI_TCGWINSZ, size);
}

int isatty(int fd) {
  struct termios terminal;
  return tcgetattr(fd, &terminal) == 0;
}

int tcdrain(int fd) {
  return ioctl(fd, ABI_TCSBRK, 1);
}
int tcflush(int fd, int queue) {
  return ioctl(fd, ABI_TCFLSH, queue);
}
int tcflow(int fd, int action) {
  return ioctl(fd, ABI_TCXONC, action);
}
/* No terminal has a serial line on which a break could be sent. */
int tcsendbreak(int fd, int duration) {
  (void)duration;
  return tcdrain(fd);
}

static int is_same_file(int fd, const char* path) {
  struct stat ours, its;
  return fstat(fd, &ours) == 0 && stat(path, &its) == 0 && ours.st_dev == its.st_dev &&
         ours.st_ino == its.st_ino;
}

int ttyname_r(int fd, char* name, size_t size) {
  char path[NAME_SIZE] = "/dev/cons";
  if (!isatty(fd)) return errno;
  int number;
  if (ioctl(fd, ABI_TCGPTN, &number) == 0) snprintf(path, sizeof path, "/dev/pts/%d", number);
  /* A master has no name. A slave has no name after its master was closed. */
  if (!is_same_file(fd, path) && !is_same_file(fd, "/dev/console")) return ENODEV;
  return strlcpy(name, path, size) < size ? 0 : ERANGE;
}

char* ttyname(int fd) {
  static char name[NAME_SIZE];
  int error = ttyname_r(fd, name, sizeof name);
  if (error == 0) return name;
  errno = error;
  return NULL;
}

char* ctermid(char* name) {
  static char own[L_ctermid];
  return strcpy(name != NULL ? name : own, "/dev/tty");
}
