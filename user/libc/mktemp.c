/* Files and directories with unique names. Random letters replace the XXXXXX of the template until
 * the name is free. O_EXCL and mkdir test the name and create the file in one atomic step.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LETTERS = 6, TRIES = 10000 };

/* Calls `make` with random names until it succeeds or fails for another reason than EEXIST.
 * `suffix` is the number of bytes that follow the XXXXXX. */
static int try_names(char* path, int suffix, int (*make)(const char*, int), int flags) {
  size_t length = strlen(path);
  char* letters = path + length - suffix - LETTERS;
  if (suffix < 0 || length < (size_t)suffix + LETTERS || strncmp(letters, "XXXXXX", LETTERS) != 0) {
    errno = EINVAL;
    return -1;
  }
  static const char alphabet[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
  for (int i = 0; i < TRIES; i++) {
    unsigned char random[LETTERS];
    if (getrandom(random, sizeof random, 0) < 0) break;
    for (int j = 0; j < LETTERS; j++) letters[j] = alphabet[random[j] % (sizeof alphabet - 1)];
    int result = make(path, flags);
    if (result >= 0) return result;
    if (errno != EEXIST) break;
  }
  memcpy(letters, "XXXXXX", LETTERS);
  return -1;
}

static int make_file(const char* path, int flags) {
  return open(path, (flags & ~O_ACCMODE) | O_RDWR | O_CREAT | O_EXCL, 0600);
}
static int make_folder(const char* path, int flags) {
  (void)flags;
  return mkdir(path, 0700);
}
/* Creates nothing: mktemp only returns a free name. */
static int look(const char* path, int flags) {
  (void)flags;
  struct stat status;
  if (lstat(path, &status) < 0) return errno == ENOENT ? 0 : -1;
  errno = EEXIST;
  return -1;
}

int mkostemps(char* path, int suffix, int flags) {
  return try_names(path, suffix, make_file, flags);
}
int mkstemps(char* path, int suffix) {
  return mkostemps(path, suffix, 0);
}
int mkostemp(char* path, int flags) {
  return mkostemps(path, 0, flags);
}
int mkstemp(char* path) {
  return mkostemps(path, 0, 0);
}
char* mkdtemp(char* path) {
  return try_names(path, 0, make_folder, 0) < 0 ? NULL : path;
}
char* mktemp(char* path) {
  if (try_names(path, 0, look, 0) < 0) path[0] = '\0';
  return path;
}
