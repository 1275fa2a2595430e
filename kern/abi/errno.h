/* Error numbers that the kernel returns. C and C++; shared with user programs.
 *
 * The values are newlib's (newlib/libc/include/sys/errno.h), so that the C library need not
 * translate a system call's error; user/libc checks the values at compile time. */
#pragma once

/* X(name, value, message) */
#define ABI_ERRNOS(X)                                \
  X(EPERM, 1, "operation not permitted")             \
  X(ENOENT, 2, "no such file or directory")          \
  X(ESRCH, 3, "no such process")                     \
  X(EINTR, 4, "interrupted system call")             \
  X(EIO, 5, "input/output error")                    \
  X(ENXIO, 6, "no such device")                      \
  X(E2BIG, 7, "argument list too long")              \
  X(ENOEXEC, 8, "not an executable")                 \
  X(EBADF, 9, "bad file descriptor")                 \
  X(ECHILD, 10, "no child processes")                \
  X(EAGAIN, 11, "try again")                         \
  X(ENOMEM, 12, "out of memory")                     \
  X(EACCES, 13, "permission denied")                 \
  X(EFAULT, 14, "bad address")                       \
  X(EBUSY, 16, "resource busy")                      \
  X(EEXIST, 17, "file exists")                       \
  X(EXDEV, 18, "link across devices")                \
  X(ENODEV, 19, "operation not supported by device") \
  X(ENOTDIR, 20, "not a directory")                  \
  X(EISDIR, 21, "is a directory")                    \
  X(EINVAL, 22, "invalid argument")                  \
  X(ENFILE, 23, "too many open files in system")     \
  X(EMFILE, 24, "too many open files")               \
  X(ENOTTY, 25, "not a terminal")                    \
  X(ETXTBSY, 26, "text file busy")                   \
  X(EFBIG, 27, "file too large")                     \
  X(ENOSPC, 28, "no space left")                     \
  X(ESPIPE, 29, "illegal seek")                      \
  X(EROFS, 30, "read-only file system")              \
  X(EPIPE, 32, "broken pipe")                        \
  X(ERANGE, 34, "result too large")                  \
  X(EDEADLK, 45, "deadlock avoided")                 \
  X(ENOLCK, 46, "no locks available")                \
  X(ENOSYS, 88, "no such system call")               \
  X(ENOTEMPTY, 90, "directory not empty")            \
  X(ENAMETOOLONG, 91, "file name too long")          \
  X(ELOOP, 92, "too many levels of links")           \
  X(ETIMEDOUT, 116, "timed out")                     \
  X(ENOTSUP, 134, "not supported")

/* Size in bytes of a task's error string (ABI_SYS_errstr), its terminating NUL included. */
#define ABI_ERRSTR_MAX 128
