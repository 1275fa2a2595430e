/* Files and directories. Links and changing times are not in the kernel: what asks for them is told
 * so. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <reent.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <stele.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <unistd.h>
#include <utime.h>

#include "syscall.h"

int open(const char* path, int flags, ...) {
  mode_t mode = 0;
  if (flags & O_CREAT) {
    va_list arguments;
    va_start(arguments, flags);
    mode = va_arg(arguments, mode_t);
    va_end(arguments);
  }
  return (int)SYSCALL3(open, path, flags, mode);
}
int close(int fd) {
  return (int)SYSCALL1(close, fd);
}
ssize_t read(int fd, void* buffer, size_t size) {
  return SYSCALL3(read, fd, buffer, size);
}
ssize_t write(int fd, const void* buffer, size_t size) {
  return SYSCALL3(write, fd, buffer, size);
}
ssize_t pread(int fd, void* buffer, size_t size, off_t offset) {
  return SYSCALL4(pread, fd, buffer, size, offset);
}
ssize_t pwrite(int fd, const void* buffer, size_t size, off_t offset) {
  return SYSCALL4(pwrite, fd, buffer, size, offset);
}
off_t lseek(int fd, off_t offset, int whence) {
  return SYSCALL3(lseek, fd, offset, whence);
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
  return (int)SYSCALL1(dup, fd);
}
int dup2(int fd, int to) {
  return (int)SYSCALL2(dup2, fd, to);
}
int pipe2(int fds[2], int flags) {
  return (int)SYSCALL2(pipe2, fds, flags);
}
int pipe(int fds[2]) {
  return pipe2(fds, 0);
}

int fcntl(int fd, int command, ...) {
  va_list arguments;
  va_start(arguments, command);
  long argument = va_arg(arguments, long);
  va_end(arguments);
  return (int)SYSCALL3(fcntl, fd, command, argument);
}

/* Names under which parts of newlib call the above. */
int _open(const char*, int, ...) __attribute__((alias("open")));
int _close(int) __attribute__((alias("close")));
int _fcntl(int, int, ...) __attribute__((alias("fcntl")));

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
      .st_blocks = (blkcnt_t)((from->size + 511) / 512),
  };
  return 0;
}

int fstat(int fd, struct stat* result) {
  struct abi_stat abi;
  return SYSCALL2(fstat, fd, &abi) < 0 ? -1 : stat_of(result, &abi);
}
int stat(const char* path, struct stat* result) {
  struct abi_stat abi;
  return SYSCALL2(stat, path, &abi) < 0 ? -1 : stat_of(result, &abi);
}
int lstat(const char* path, struct stat* result) {
  return stat(path, result);
}

int access(const char* path, int mode) {
  return (int)SYSCALL2(access, path, mode);
}
int chdir(const char* path) {
  return (int)SYSCALL1(chdir, path);
}
int fchdir(int fd) {
  return (int)SYSCALL1(fchdir, fd);
}
int mkdir(const char* path, mode_t mode) {
  return (int)SYSCALL2(mkdir, path, mode);
}
int rmdir(const char* path) {
  return (int)SYSCALL1(rmdir, path);
}
int unlink(const char* path) {
  return (int)SYSCALL1(unlink, path);
}
int rename(const char* from, const char* to) {
  return (int)SYSCALL2(rename, from, to);
}
int _rename(const char*, const char*) __attribute__((alias("rename")));
int chmod(const char* path, mode_t mode) {
  return (int)SYSCALL2(chmod, path, mode);
}
int truncate(const char* path, off_t size) {
  return (int)SYSCALL2(truncate, path, size);
}
int ftruncate(int fd, off_t size) {
  return (int)SYSCALL2(ftruncate, fd, size);
}
mode_t umask(mode_t mask) {
  return (mode_t)SYSCALL1(umask, mask);
}

/* The *at calls: the path with the open directory's name before it, in `full`; NULL with errno. The
 * process stays where it is. */
static const char* path_at(char full[PATH_MAX], int directory, const char* path) {
  if (directory == AT_FDCWD || path[0] == '/' || path[0] == '#' || path[0] == '\0') return path;
  if (SYSCALL3(fd2path, directory, full, PATH_MAX) < 0) return NULL;
  if (strlcat(full, "/", PATH_MAX) >= PATH_MAX || strlcat(full, path, PATH_MAX) >= PATH_MAX) {
    errno = ENAMETOOLONG;
    return NULL;
  }
  return full;
}

int openat(int directory, const char* path, int flags, ...) {
  mode_t mode = 0;
  if (flags & O_CREAT) {
    va_list arguments;
    va_start(arguments, flags);
    mode = va_arg(arguments, mode_t);
    va_end(arguments);
  }
  char full[PATH_MAX];
  path = path_at(full, directory, path);
  return path == NULL ? -1 : open(path, flags, mode);
}
int faccessat(int directory, const char* path, int mode, int flags) {
  (void)flags;
  char full[PATH_MAX];
  path = path_at(full, directory, path);
  return path == NULL ? -1 : access(path, mode);
}
int fstatat(int directory, const char* path, struct stat* result, int flags) {
  (void)flags;
  char full[PATH_MAX];
  path = path_at(full, directory, path);
  return path == NULL ? -1 : stat(path, result);
}
int unlinkat(int directory, const char* path, int flags) {
  char full[PATH_MAX];
  path = path_at(full, directory, path);
  if (path == NULL) return -1;
  return flags & AT_REMOVEDIR ? rmdir(path) : unlink(path);
}
int mkdirat(int directory, const char* path, mode_t mode) {
  char full[PATH_MAX];
  path = path_at(full, directory, path);
  return path == NULL ? -1 : mkdir(path, mode);
}
int fchmodat(int directory, const char* path, mode_t mode, int flags) {
  (void)flags;
  char full[PATH_MAX];
  path = path_at(full, directory, path);
  return path == NULL ? -1 : chmod(path, mode);
}

int remove(const char* path) {
  int result = unlink(path);
  return result < 0 && errno == EISDIR ? rmdir(path) : result;
}
int _remove_r(struct _reent* reent, const char* path) {
  (void)reent;
  return remove(path);
}

/* Every write has reached its device when it returns. */
int fsync(int fd) {
  struct abi_stat abi;
  return SYSCALL2(fstat, fd, &abi) < 0 ? -1 : 0;
}
int fdatasync(int fd) {
  return fsync(fd);
}
void sync(void) {}

int link(const char* from, const char* to) {
  (void)from, (void)to;
  return (int)__stele_fail(EPERM, "no device has links");
}
int symlink(const char* target, const char* path) {
  return link(target, path);
}
int mknod(const char* path, mode_t mode, dev_t device) {
  (void)path, (void)mode, (void)device;
  return (int)__stele_fail(EPERM, "device files are bound, not made");
}
int mkfifo(const char* path, mode_t mode) {
  return mknod(path, mode, 0);
}
ssize_t readlink(const char* path, char* buffer, size_t size) {
  (void)buffer, (void)size;
  if (access(path, F_OK) < 0) return -1;
  return __stele_fail(EINVAL, "");
}
int chown(const char* path, uid_t owner, gid_t group) {
  struct stat now;
  if (stat(path, &now) < 0) return -1;
  if ((owner == (uid_t)-1 || owner == now.st_uid) && (group == (gid_t)-1 || group == now.st_gid))
    return 0;
  return (int)__stele_fail(EPERM, "the owner of a file cannot be changed");
}
int lchown(const char* path, uid_t owner, gid_t group) {
  return chown(path, owner, group);
}
int fchown(int fd, uid_t owner, gid_t group) {
  struct stat now;
  if (fstat(fd, &now) < 0) return -1;
  if ((owner == (uid_t)-1 || owner == now.st_uid) && (group == (gid_t)-1 || group == now.st_gid))
    return 0;
  return (int)__stele_fail(EPERM, "the owner of a file cannot be changed");
}
int fchmod(int fd, mode_t mode) {
  struct stat now;
  if (fstat(fd, &now) < 0) return -1;
  if (((now.st_mode ^ mode) & 07777) == 0) return 0;
  return (int)__stele_fail(ENOTSUP, "permissions are changed by path only");
}
int utimes(const char* path, const struct timeval* times) {
  (void)times;
  if (access(path, F_OK) < 0) return -1;
  return (int)__stele_fail(ENOSYS, "the times of a file cannot be set");
}
int utimensat(int directory, const char* path, const struct timespec* times, int flags) {
  (void)times, (void)flags;
  char full[PATH_MAX];
  path = path_at(full, directory, path);
  return path == NULL ? -1 : utimes(path, NULL);
}
int utime(const char* path, const struct utimbuf* times) {
  (void)times;
  return utimes(path, NULL);
}

char* getcwd(char* buffer, size_t size) {
  char* result = buffer;
  if (result == NULL) {
    if (size == 0) size = PATH_MAX;
    result = malloc(size);
    if (result == NULL) return NULL;
  }
  if (SYSCALL2(getcwd, result, size) < 0) {
    if (buffer == NULL) free(result);
    return NULL;
  }
  return result;
}

/* Without links a path only has to be made absolute and freed of ".", ".." and doubled slashes. */
char* realpath(const char* path, char* resolved) {
  char full[2 * PATH_MAX];
  if (path[0] == '\0') {
    errno = ENOENT;
    return NULL;
  }
  if (access(path, F_OK) < 0) return NULL;
  if (path[0] == '/' || path[0] == '#') {
    strlcpy(full, path, sizeof full);
  } else {
    if (getcwd(full, PATH_MAX) == NULL) return NULL;
    strlcat(full, "/", sizeof full);
    strlcat(full, path, sizeof full);
  }
  char* result = resolved != NULL ? resolved : malloc(PATH_MAX);
  if (result == NULL) return NULL;
  /* A device's name is a root of its own, which ".." does not leave. */
  size_t root = full[0] == '#' ? strcspn(full, "/") : 0;
  memcpy(result, full, root);
  size_t length = root;
  char* rest = full + root;
  for (char* part = strsep(&rest, "/"); part != NULL; part = strsep(&rest, "/")) {
    if (part[0] == '\0' || strcmp(part, ".") == 0) continue;
    if (strcmp(part, "..") == 0) {
      while (length > root && result[--length] != '/') continue;
      continue;
    }
    size_t part_length = strlen(part);
    if (length + 1 + part_length >= PATH_MAX) {
      if (resolved == NULL) free(result);
      errno = ENAMETOOLONG;
      return NULL;
    }
    result[length++] = '/';
    memcpy(result + length, part, part_length);
    length += part_length;
  }
  if (length == 0) result[length++] = '/';
  result[length] = '\0';
  return result;
}

long pathconf(const char* path, int name) {
  (void)path;
  return fpathconf(-1, name);
}
long fpathconf(int fd, int name) {
  (void)fd;
  switch (name) {
    case _PC_NAME_MAX:
      return NAME_MAX;
    case _PC_PATH_MAX:
      return PATH_MAX;
    case _PC_PIPE_BUF:
      return 512;
    case _PC_VDISABLE:
      return 0;
    default:
      return __stele_fail(EINVAL, "pathconf: not known here");
  }
}

int ns_bind(const char* source, const char* target, int flags) {
  return (int)SYSCALL3(bind, source, target, flags);
}
int ns_unmount(const char* target) {
  return (int)SYSCALL1(unmount, target);
}

ssize_t getdelim(char** line, size_t* size, int delimiter, FILE* stream) {
  return __getdelim(line, size, delimiter, stream);
}
ssize_t getline(char** line, size_t* size, FILE* stream) {
  return __getdelim(line, size, '\n', stream);
}
