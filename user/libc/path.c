/* Calls on paths. Most of the kernel's calls take a directory descriptor, at which a relative path
 * begins. Functions without such a parameter pass AT_FDCWD, the current directory. fchmod, fchown,
 * futimens and similar functions pass the open file's descriptor with an empty path
 * (AT_EMPTY_PATH). */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stele.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/time.h>
#include <unistd.h>
#include <utime.h>

#include "cancel.h"

static mode_t mode_argument(int flags, va_list arguments) {
  return flags & O_CREAT ? va_arg(arguments, mode_t) : 0;
}

int openat(int directory, const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  mode_t mode = mode_argument(flags, arguments);
  va_end(arguments);
  return (int)CANCELLABLE4(open, directory, path, flags, mode);
}
int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  mode_t mode = mode_argument(flags, arguments);
  va_end(arguments);
  /* Does not call openat, so that a backtrace shows only one function of the library. */
  return (int)CANCELLABLE4(open, AT_FDCWD, path, flags, mode);
}
int _open(const char*, int, ...) __attribute__((alias("open")));

static struct timespec timespec_of(const struct abi_timespec* time) {
  return (struct timespec){.tv_sec = time->sec, .tv_nsec = time->nsec};
}

static int stat_of(struct stat* to, const struct abi_stat* from) {
  *to = (struct stat){
      .st_dev = from->dev,
      .st_ino = from->ino,
      .st_mode = from->mode,
      .st_nlink = (nlink_t)from->nlink,
      .st_uid = from->uid,
      .st_gid = from->gid,
      .st_size = (off_t)from->size,
      .st_atim = timespec_of(&from->atime),
      .st_mtim = timespec_of(&from->mtime),
      .st_ctim = timespec_of(&from->ctime),
      .st_blksize = (blksize_t)from->block_size,
      .st_blocks = (blkcnt_t)from->blocks,
  };
  return 0;
}

int fstat(int fd, struct stat* result) {
  struct abi_stat abi;
  return SYSCALL(fstat, fd, &abi) < 0 ? -1 : stat_of(result, &abi);
}
int fstatat(int directory, const char* path, struct stat* result, int flags) {
  struct abi_stat abi;
  return SYSCALL(stat, directory, path, &abi, flags) < 0 ? -1 : stat_of(result, &abi);
}
int stat(const char* path, struct stat* result) {
  return fstatat(AT_FDCWD, path, result, 0);
}
int lstat(const char* path, struct stat* result) {
  return fstatat(AT_FDCWD, path, result, AT_SYMLINK_NOFOLLOW);
}

int faccessat(int directory, const char* path, int mode, int flags) {
  return (int)SYSCALL(access, directory, path, mode, flags);
}
int access(const char* path, int mode) {
  return faccessat(AT_FDCWD, path, mode, 0);
}
int eaccess(const char* path, int mode) {
  return faccessat(AT_FDCWD, path, mode, AT_EACCESS);
}
int euidaccess(const char*, int) __attribute__((alias("eaccess")));

int chdir(const char* path) {
  return (int)SYSCALL(chdir, path);
}
int fchdir(int fd) {
  return (int)SYSCALL(fchdir, fd);
}

int mkdirat(int directory, const char* path, mode_t mode) {
  return (int)SYSCALL(mkdir, directory, path, mode);
}
int mkdir(const char* path, mode_t mode) {
  return mkdirat(AT_FDCWD, path, mode);
}
/* Creates a file or a FIFO, but no device: ns_bind gives a device a path. */
int mknodat(int directory, const char* path, mode_t mode, dev_t device) {
  (void)device;
  return (int)SYSCALL(mknod, directory, path, mode);
}
int mknod(const char* path, mode_t mode, dev_t device) {
  return mknodat(AT_FDCWD, path, mode, device);
}
int mkfifoat(int directory, const char* path, mode_t mode) {
  return mknodat(directory, path, (mode & 07777) | S_IFIFO, 0);
}
int mkfifo(const char* path, mode_t mode) {
  return mkfifoat(AT_FDCWD, path, mode);
}

int unlinkat(int directory, const char* path, int flags) {
  return (int)SYSCALL(unlink, directory, path, flags);
}
int unlink(const char* path) {
  return unlinkat(AT_FDCWD, path, 0);
}
int rmdir(const char* path) {
  return unlinkat(AT_FDCWD, path, AT_REMOVEDIR);
}
int remove(const char* path) {
  int result = unlink(path);
  return result < 0 && errno == EISDIR ? rmdir(path) : result;
}
int _remove_r(struct _reent* reent, const char* path) {
  (void)reent;
  return remove(path);
}

int renameat(int from_directory, const char* from, int to_directory, const char* to) {
  return (int)SYSCALL(rename, from_directory, from, to_directory, to);
}
int rename(const char* from, const char* to) {
  return renameat(AT_FDCWD, from, AT_FDCWD, to);
}
int _rename(const char*, const char*) __attribute__((alias("rename")));

int linkat(int from_directory, const char* from, int to_directory, const char* to, int flags) {
  return (int)SYSCALL(link, from_directory, from, to_directory, to, flags, 0);
}
int link(const char* from, const char* to) {
  return linkat(AT_FDCWD, from, AT_FDCWD, to, 0);
}
int symlinkat(const char* target, int directory, const char* path) {
  return (int)SYSCALL(symlink, target, directory, path);
}
int symlink(const char* target, const char* path) {
  return symlinkat(target, AT_FDCWD, path);
}
ssize_t readlinkat(int directory, const char* path, char* buffer, size_t size) {
  return SYSCALL(readlink, directory, path, buffer, size);
}
ssize_t readlink(const char* path, char* buffer, size_t size) {
  return readlinkat(AT_FDCWD, path, buffer, size);
}

int fchmodat(int directory, const char* path, mode_t mode, int flags) {
  return (int)SYSCALL(chmod, directory, path, mode, flags);
}
int chmod(const char* path, mode_t mode) {
  return fchmodat(AT_FDCWD, path, mode, 0);
}
int fchmod(int fd, mode_t mode) {
  return fchmodat(fd, "", mode, AT_EMPTY_PATH);
}
int fchownat(int directory, const char* path, uid_t owner, gid_t group, int flags) {
  return (int)SYSCALL(chown, directory, path, owner, group, flags, 0);
}
int chown(const char* path, uid_t owner, gid_t group) {
  return fchownat(AT_FDCWD, path, owner, group, 0);
}
int lchown(const char* path, uid_t owner, gid_t group) {
  return fchownat(AT_FDCWD, path, owner, group, AT_SYMLINK_NOFOLLOW);
}
int fchown(int fd, uid_t owner, gid_t group) {
  return fchownat(fd, "", owner, group, AT_EMPTY_PATH);
}

int utimensat(int directory, const char* path, const struct timespec times[2], int flags) {
  return (int)SYSCALL(utimens, directory, path, times, flags);
}
int futimens(int fd, const struct timespec times[2]) {
  return utimensat(fd, "", times, AT_EMPTY_PATH);
}

/* utimensat for times in microseconds. */
static int utimesat(int directory, const char* path, const struct timeval* times, int flags) {
  if (times == NULL) return utimensat(directory, path, NULL, flags);
  struct timespec exact[2];
  for (int i = 0; i < 2; i++) {
    if (times[i].tv_usec < 0 || times[i].tv_usec >= 1000000) {
      errno = EINVAL;
      return -1;
    }
    exact[i] = (struct timespec){.tv_sec = times[i].tv_sec, .tv_nsec = times[i].tv_usec * 1000};
  }
  return utimensat(directory, path, exact, flags);
}
int utimes(const char* path, const struct timeval times[2]) {
  return utimesat(AT_FDCWD, path, times, 0);
}
int lutimes(const char* path, const struct timeval times[2]) {
  return utimesat(AT_FDCWD, path, times, AT_SYMLINK_NOFOLLOW);
}
int futimes(int fd, const struct timeval times[2]) {
  return utimesat(fd, "", times, AT_EMPTY_PATH);
}
int futimesat(int directory, const char* path, const struct timeval times[2]) {
  return utimesat(directory, path, times, 0);
}
int utime(const char* path, const struct utimbuf* times) {
  if (times == NULL) return utimes(path, NULL);
  struct timeval exact[2] = {{.tv_sec = times->actime}, {.tv_sec = times->modtime}};
  return utimes(path, exact);
}

int truncate(const char* path, off_t size) {
  return (int)SYSCALL(truncate, path, size);
}
mode_t umask(mode_t mask) {
  return (mode_t)SYSCALL(umask, mask);
}

static int statvfs_at(int directory, const char* path, struct statvfs* result, int flags) {
  struct abi_statfs abi;
  if (SYSCALL(statfs, directory, path, &abi, flags) < 0) return -1;
  *result = (struct statvfs){
      .f_bsize = abi.block_size,
      .f_frsize = abi.block_size,
      .f_blocks = abi.blocks,
      .f_bfree = abi.blocks_free,
      .f_bavail = abi.blocks_available,
      .f_files = abi.files,
      .f_ffree = abi.files_free,
      .f_favail = abi.files_free,
      .f_fsid = abi.device,
      .f_flag = abi.read_only ? ST_RDONLY : 0,
      .f_namemax = abi.longest_name,
  };
  return 0;
}
int statvfs(const char* path, struct statvfs* result) {
  return statvfs_at(AT_FDCWD, path, result, 0);
}
int fstatvfs(int fd, struct statvfs* result) {
  return statvfs_at(fd, "", result, AT_EMPTY_PATH);
}

int ns_bind(const char* source, const char* target, int flags) {
  return (int)SYSCALL(bind, source, target, flags);
}
int ns_unmount(const char* target) {
  return (int)SYSCALL(unmount, target);
}
