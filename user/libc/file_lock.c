/* Locks on files, by the kernel's fcntl and flock. */
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "syscall.h"

int flock(int fd, int operation) {
  return (int)SYSCALL(flock, fd, operation);
}

/* Sets, tests or removes a write lock on `size` bytes from the file offset on. */
int lockf(int fd, int command, off_t size) {
  struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_CUR, .l_len = size};
  switch (command) {
    case F_LOCK:
      return fcntl(fd, F_SETLKW, &lock);
    case F_TLOCK:
      return fcntl(fd, F_SETLK, &lock);
    case F_ULOCK:
      lock.l_type = F_UNLCK;
      return fcntl(fd, F_SETLK, &lock);
    case F_TEST:
      if (fcntl(fd, F_GETLK, &lock) < 0) return -1;
      if (lock.l_type == F_UNLCK) return 0;
      errno = EAGAIN;
      return -1;
    default:
      errno = EINVAL;
      return -1;
  }
}
