/* Directory streams over the getdents system call. No function in this file is a cancellation
 * point: if a thread were cancelled while glob or scandir reads a directory, the stream would
 * leak. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "syscall.h"

struct __dirstream {
  int fd;
  size_t used, filled; /* bytes of `buffer` that readdir has returned, and that getdents wrote */
  long position;       /* position after the last returned entry, for telldir */
  struct dirent entry; /* readdir's last result, copied from the abi_dirent in `buffer` */
  char buffer[4096] __attribute__((aligned(8)));
};

DIR* fdopendir(int fd) {
  struct stat stat;
  if (fstat(fd, &stat) < 0) return NULL;
  if (!S_ISDIR(stat.st_mode)) {
    errno = ENOTDIR;
    return NULL;
  }
  DIR* directory = malloc(sizeof *directory);
  if (directory == NULL) return NULL;
  directory->fd = fd;
  directory->used = directory->filled = 0;
  directory->position = 0;
  return directory;
}

static DIR* opendir_at(int start, const char* path) {
  int fd = (int)SYSCALL(open, start, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
  if (fd < 0) return NULL;
  DIR* directory = fdopendir(fd);
  if (directory == NULL) SYSCALL(close, fd);
  return directory;
}

DIR* opendir(const char* path) {
  return opendir_at(AT_FDCWD, path);
}

int closedir(DIR* directory) {
  int fd = directory->fd;
  free(directory);
  return (int)SYSCALL(close, fd);
}

struct dirent* readdir(DIR* directory) {
  if (directory->used >= directory->filled) {
    long got = SYSCALL(getdents, directory->fd, directory->buffer, sizeof directory->buffer);
    if (got <= 0) return NULL;
    directory->used = 0;
    directory->filled = (size_t)got;
  }
  const struct abi_dirent* next = (const struct abi_dirent*)(directory->buffer + directory->used);
  directory->used += next->length;
  directory->position = (long)next->next;
  directory->entry.d_ino = next->ino;
  directory->entry.d_reclen = next->length;
  directory->entry.d_type = next->type;
  strlcpy(directory->entry.d_name, next->name, sizeof directory->entry.d_name);
  return &directory->entry;
}

void seekdir(DIR* directory, long position) {
  lseek(directory->fd, position, SEEK_SET);
  directory->used = directory->filled = 0;
  directory->position = position;
}

void rewinddir(DIR* directory) {
  seekdir(directory, 0);
}

long telldir(DIR* directory) {
  return directory->position;
}

int dirfd(DIR* directory) {
  return directory->fd;
}
int __dirfd(DIR* directory) {
  return directory->fd;
}

int alphasort(const struct dirent** a, const struct dirent** b) {
  return strcmp((*a)->d_name, (*b)->d_name);
}

int scandirat(int start, const char* path, struct dirent*** result,
              int (*select)(const struct dirent*),
              int (*compare)(const struct dirent**, const struct dirent**)) {
  DIR* directory = opendir_at(start, path);
  if (directory == NULL) return -1;
  struct dirent** list = NULL;
  int count = 0;
  for (struct dirent* entry; (entry = readdir(directory)) != NULL;) {
    if (select != NULL && !select(entry)) continue;
    struct dirent** grown = realloc(list, (size_t)(count + 1) * sizeof *list);
    struct dirent* copy = malloc(sizeof *copy);
    if (grown != NULL) list = grown;
    if (grown == NULL || copy == NULL) {
      free(copy);
      while (count > 0) free(list[--count]);
      free(list);
      closedir(directory);
      errno = ENOMEM;
      return -1;
    }
    *copy = *entry;
    list[count++] = copy;
  }
  closedir(directory);
  if (compare != NULL && count > 1) {
    qsort(list, (size_t)count, sizeof *list, (int (*)(const void*, const void*))compare);
  }
  *result = list;
  return count;
}

int scandir(const char* path, struct dirent*** result, int (*select)(const struct dirent*),
            int (*compare)(const struct dirent**, const struct dirent**)) {
  return scandirat(AT_FDCWD, path, result, select, compare);
}

int fdclosedir(DIR* directory) {
  int fd = directory->fd;
  free(directory);
  return fd;
}

int readdir_r(DIR* directory, struct dirent* entry, struct dirent** result) {
  int before = errno;
  errno = 0;
  const struct dirent* next = readdir(directory);
  int error = errno;
  errno = before;
  *result = NULL;
  if (next == NULL) return error;
  *entry = *next;
  *result = entry;
  return 0;
}

int versionsort(const struct dirent** a, const struct dirent** b) {
  return strverscmp((*a)->d_name, (*b)->d_name);
}
