/* Terminals: there is one kind, the console. */
#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "syscall.h"

int ioctl(int fd, int request, ...) {
  va_list arguments;
  va_start(arguments, request);
  void* argument = va_arg(arguments, void*);
  va_end(arguments);
  return (int)SYSCALL3(ioctl, fd, request, argument);
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
int tcgetwinsize(int fd, struct winsize* size) {
  return ioctl(fd, ABI_TCGWINSZ, size);
}

int isatty(int fd) {
  struct termios terminal;
  return tcgetattr(fd, &terminal) == 0;
}

int tcdrain(int fd) {
  struct termios terminal;
  return tcgetattr(fd, &terminal) < 0 ? -1 : tcsetattr(fd, TCSADRAIN, &terminal);
}
int tcflush(int fd, int queue) {
  struct termios terminal;
  if (tcgetattr(fd, &terminal) < 0) return -1;
  return queue == TCOFLUSH ? 0 : tcsetattr(fd, TCSAFLUSH, &terminal);
}
int tcflow(int fd, int action) {
  (void)action;
  return isatty(fd) ? 0 : -1;
}
int tcsendbreak(int fd, int duration) {
  return tcflow(fd, duration);
}

/* A console has no line speed; programs that ask get one that they know. */
speed_t cfgetospeed(const struct termios* terminal) {
  (void)terminal;
  return B115200;
}
speed_t cfgetispeed(const struct termios* terminal) {
  return cfgetospeed(terminal);
}
int cfsetospeed(struct termios* terminal, speed_t speed) {
  (void)terminal, (void)speed;
  return 0;
}
int cfsetispeed(struct termios* terminal, speed_t speed) {
  return cfsetospeed(terminal, speed);
}

void cfmakeraw(struct termios* terminal) {
  terminal->c_iflag &=
      ~(tcflag_t)(IGNBRK | BRKINT | PARMRK | ISTRIP | INLCR | IGNCR | ICRNL | IXON);
  terminal->c_oflag &= ~(tcflag_t)OPOST;
  terminal->c_lflag &= ~(tcflag_t)(ECHO | ECHONL | ICANON | ISIG | IEXTEN);
  terminal->c_cflag = (terminal->c_cflag & ~(tcflag_t)(CSIZE | PARENB)) | CS8;
  terminal->c_cc[VMIN] = 1;
  terminal->c_cc[VTIME] = 0;
}

int ttyname_r(int fd, char* name, size_t size) {
  if (!isatty(fd)) return ENOTTY;
  return strlcpy(name, "/dev/cons", size) < size ? 0 : ERANGE;
}

char* ttyname(int fd) {
  static char name[16];
  int error = ttyname_r(fd, name, sizeof name);
  if (error == 0) return name;
  errno = error;
  return NULL;
}

char* ctermid(char* name) {
  static char own[16];
  if (name == NULL) name = own;
  return strcpy(name, "/dev/cons");
}
