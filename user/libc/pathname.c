/* The current directory, the resolution of paths, and limits on names. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "syscall.h"

char* getcwd(char* buffer, size_t size) {
  char* result = buffer;
  if (result == NULL) {
    if (size == 0) size = PATH_MAX;
    result = malloc(size);
    if (result == NULL) return NULL;
  } else if (size == 0) {
    errno = EINVAL;
    return NULL;
  }
  if (SYSCALL(getcwd, result, size) < 0) {
    if (buffer == NULL) free(result);
    return NULL;
  }
  return result;
}

char* get_current_dir_name(void) {
  return getcwd(NULL, 0);
}

/* Returns the length of the part of `resolved` that ".." does not remove. If the path begins at a
 * device, this part is "#NAME", because the root of a device is its own parent. Otherwise the
 * length is 0. */
static size_t root_length(const char* resolved) {
  return resolved[0] == '#' ? strcspn(resolved, "/") : 0;
}

static int too_long(void) {
  errno = ENAMETOOLONG;
  return -1;
}

/* If `path` is absolute, sets `resolved` to its root: "" for "/…", "#NAME" for a device. Returns
 * the rest of `path`. */
static char* begin_at(char* path, char resolved[PATH_MAX]) {
  if (path[0] == '/') resolved[0] = '\0';
  if (path[0] != '#') return path;
  size_t root = strcspn(path, "/");
  memcpy(resolved, path, root);
  resolved[root] = '\0';
  return path + root;
}

/* Extends `resolved`, a path without symbolic links, by the components of `rest`. Each link's
 * target is inserted into `rest`, a buffer of 2 * PATH_MAX bytes. Returns 0, or -1 with errno. */
static int resolve(char* rest, char resolved[PATH_MAX]) {
  char target[PATH_MAX], text[2 * PATH_MAX];
  int links = 0;
  char* at = begin_at(rest, resolved);
  for (;;) {
    at += strspn(at, "/");
    size_t length = strcspn(at, "/");
    if (length == 0) return 0;
    if (length == 1 && at[0] == '.') {
      at++;
      continue;
    }
    size_t before = strlen(resolved);
    if (length == 2 && strncmp(at, "..", 2) == 0) {
      char* slash = strrchr(resolved, '/');
      if (slash != NULL && before > root_length(resolved)) *slash = '\0';
      at += 2;
      continue;
    }
    if (before + 1 + length >= PATH_MAX) return too_long();
    resolved[before] = '/';
    memcpy(resolved + before + 1, at, length);
    resolved[before + 1 + length] = '\0';
    at += length;
    ssize_t size = readlink(resolved, target, sizeof target);
    if (size < 0 && errno != EINVAL) return -1;
    if (size < 0) continue; /* not a link */
    if (++links > SYMLOOP_MAX) {
      errno = ELOOP;
      return -1;
    }
    if ((size_t)size >= sizeof target || (size_t)size + strlen(at) >= sizeof text)
      return too_long();
    memcpy(text, target, (size_t)size);
    strcpy(text + size, at);
    strcpy(rest, text);
    resolved[before] = '\0';
    at = begin_at(rest, resolved);
  }
}

char* realpath(const char* path, char* resolved) {
  char rest[2 * PATH_MAX], name[PATH_MAX] = "";
  if (path == NULL || path[0] == '\0') {
    errno = path == NULL ? EINVAL : ENOENT;
    return NULL;
  }
  if (strlcpy(rest, path, PATH_MAX) >= PATH_MAX) {
    too_long();
    return NULL;
  }
  if (path[0] != '/' && path[0] != '#') {
    if (getcwd(name, sizeof name) == NULL) return NULL;
    if (strcmp(name, "/") == 0) name[0] = '\0';
  }
  /* access() checks that all components exist, and that each one but the last is a directory.
   * resolve() alone would accept "file/..". */
  if (access(path, F_OK) < 0 || resolve(rest, name) < 0) return NULL;
  if (name[0] == '\0') strcpy(name, "/");
  if (resolved == NULL) return strdup(name);
  return strcpy(resolved, name);
}

char* canonicalize_file_name(const char* path) {
  return realpath(path, NULL);
}

long fpathconf(int fd, int name) {
  struct statvfs all;
  switch (name) {
    case _PC_NAME_MAX:
      return fstatvfs(fd, &all) < 0 ? -1 : (long)all.f_namemax;
    case _PC_PATH_MAX:
      return PATH_MAX;
    case _PC_SYMLINK_MAX:
      return PATH_MAX - 1;
    case _PC_LINK_MAX:
      return USHRT_MAX; /* nlink_t */
    case _PC_PIPE_BUF:
      return 4096;
    case _PC_MAX_CANON:
    case _PC_MAX_INPUT:
      return MAX_CANON;
    case _PC_FILESIZEBITS:
      return 64;
    case _PC_CHOWN_RESTRICTED:
    case _PC_NO_TRUNC:
    case _PC_2_SYMLINKS:
    case _PC_SYNC_IO:
      return 1;
    case _PC_TIMESTAMP_RESOLUTION:
      return 1; /* ns */
    case _PC_ALLOC_SIZE_MIN:
    case _PC_REC_MIN_XFER_SIZE:
    case _PC_REC_XFER_ALIGN:
      return 4096;
    case _PC_VDISABLE:
      return 0;
    case _PC_ASYNC_IO:
    case _PC_PRIO_IO:
    case _PC_REC_INCR_XFER_SIZE:
    case _PC_REC_MAX_XFER_SIZE:
      return -1; /* no limit: errno is not changed */
    default:
      return __stele_fail(EINVAL, "pathconf: not known here");
  }
}
long pathconf(const char* path, int name) {
  struct statvfs all;
  if (name == _PC_NAME_MAX) return statvfs(path, &all) < 0 ? -1 : (long)all.f_namemax;
  return access(path, F_OK) < 0 ? -1 : fpathconf(-1, name);
}
