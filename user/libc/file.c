/* Calls on open files. path.c has the calls on paths. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <reent.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <unistd.h>

#include "cancel.h"

int close(int fd) {
  return (int)CANCELLABLE1(close, fd);
}
int posix_close(int fd, int flags) {
  if (flags & ~POSIX_CLOSE_RESTART) {
    errno = EINVAL;
    return -1;
  }
  return close(fd);
}
ssize_t read(int fd, void* buffer, size_t size) {
  return CANCELLABLE3(read, fd, buffer, size);
}
ssize_t write(int fd, const void* buffer, size_t size) {
  return CANCELLABLE3(write, fd, buffer, size);
}
ssize_t pread(int fd, void* buffer, size_t size, off_t offset) {
  return CANCELLABLE4(pread, fd, buffer, size, offset);
}
ssize_t pwrite(int fd, const void* buffer, size_t size, off_t offset) {
  return CANCELLABLE4(pwrite, fd, buffer, size, offset);
}
off_t lseek(int fd, off_t offset, int whence) {
  return SYSCALL(lseek, fd, offset, whence);
}

ssize_t readv(int fd, const struct iovec* parts, int count) {
  ssize_t total = 0;
  for (int i = 0; i < count; i++) {
    ssize_t got = read(fd, parts[i].iov_base, parts[i].iov_len);
    if (got < 0) return total > 0 ? total : -1;
    total += got;
    if ((size_t)got < parts[i].iov_len) break;
  }
  return total;
}

ssize_t writev(int fd, const struct iovec* parts, int count) {
  ssize_t total = 0;
  for (int i = 0; i < count; i++) {
    ssize_t put = write(fd, parts[i].iov_base, parts[i].iov_len);
    if (put < 0) return total > 0 ? total : -1;
    total += put;
    if ((size_t)put < parts[i].iov_len) break;
  }
  return total;
}

int dup(int fd) {
  return (int)SYSCALL(dup, fd);
}
int dup2(int fd, int to) {
  return (int)SYSCALL(dup2, fd, to, 0);
}
int dup3(int fd, int to, int flags) {
  if (fd == to) {
    errno = EINVAL;
    return -1;
  }
  return (int)SYSCALL(dup2, fd, to, flags);
}
int pipe2(int fds[2], int flags) {
  return (int)SYSCALL(pipe2, fds, flags);
}
int pipe(int fds[2]) {
  return pipe2(fds, 0);
}

int fcntl(int fd, int command, ...) {
  va_list arguments;
  va_start(arguments, command);
  long argument = va_arg(arguments, long);
  va_end(arguments);
  if (command == F_SETLKW) return (int)CANCELLABLE3(fcntl, fd, command, argument);
  return (int)SYSCALL(fcntl, fd, command, argument);
}

/* newlib calls these functions by names with an underscore. */
int _close(int) __attribute__((alias("close")));
int _fcntl(int, int, ...) __attribute__((alias("fcntl")));

int ftruncate(int fd, off_t size) {
  return (int)SYSCALL(ftruncate, fd, size);
}

/* Reads one byte of each block. If the byte is zero, writes a zero to it, so that the block is
 * allocated. If another process changes the byte between the read and the write, its change is
 * lost.
 */
int posix_fallocate(int fd, off_t offset, off_t size) {
  enum { BLOCK = 4096 };
  struct stat now;
  off_t end;
  if (offset < 0 || size <= 0) return EINVAL;
  if (__builtin_add_overflow(offset, size, &end)) return EFBIG;
  if (fstat(fd, &now) < 0) return errno;
  if (S_ISFIFO(now.st_mode)) return ESPIPE;
  if (!S_ISREG(now.st_mode)) return ENODEV;
  for (off_t at = offset; at < end; at = at / BLOCK * BLOCK + BLOCK) {
    char byte = 0;
    if (at < now.st_size && pread(fd, &byte, 1, at) < 0) return errno;
    if (byte == 0 && pwrite(fd, &byte, 1, at) < 0) return errno;
  }
  if (end > now.st_size) {
    char byte = 0;
    if (pwrite(fd, &byte, 1, end - 1) < 0) return errno;
  }
  return 0;
}

/* Files are not read ahead, and read() and write() put no pages into the page cache, so advice has
 * no effect. */
int posix_fadvise(int fd, off_t offset, off_t size, int advice) {
  struct stat now;
  if (fstat(fd, &now) < 0) return errno;
  if (S_ISFIFO(now.st_mode)) return ESPIPE;
  return offset < 0 || size < 0 || advice < POSIX_FADV_NORMAL || advice > POSIX_FADV_NOREUSE
             ? EINVAL
             : 0;
}

int fsync(int fd) {
  return (int)CANCELLABLE2(fsync, fd, 0);
}
int fdatasync(int fd) {
  return (int)CANCELLABLE2(fsync, fd, 1);
}
/* POSIX requires that sync schedules all writes. For write() there is nothing to do: it returns
 * when the device has the data. Pages that were changed through a shared map are not scheduled:
 * msync, fsync and close write them back. */
void sync(void) {}

ssize_t getdelim(char** line, size_t* size, int delimiter, FILE* stream) {
  return __getdelim(line, size, delimiter, stream);
}
ssize_t getline(char** line, size_t* size, FILE* stream) {
  return __getdelim(line, size, '\n', stream);
}
