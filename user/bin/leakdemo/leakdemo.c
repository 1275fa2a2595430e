/* leakdemo clean | leak N: makes system calls that leak kernel memory (`leak`) or do not (`clean`).
 * It is an exercise for leak hunts.
 *
 * #debug/leaky/leak is a file whose close does not free an object, so each open, read and close of
 * it leaves one object behind. #debug/leaky/clean is a file of the same kind without this bug.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int usage(void) {
  fputs(
      "usage: leakdemo clean     opens, reads and closes a correct device, ten times\n"
      "       leakdemo leak N    does so N times with a device whose close frees nothing: leaks N "
      "objects\n",
      stderr);
  return 2;
}

static int use(const char* path, long times) {
  for (long i = 0; i < times; i++) {
    int fd = open(path, O_RDONLY);
    char byte;
    if (fd < 0 || read(fd, &byte, 1) < 0 || close(fd) < 0) {
      fprintf(stderr, "leakdemo: %s: %s\n", path, strerror(errno));
      return 1;
    }
  }
  return 0;
}

int main(int argc, char** argv) {
  if (argc == 2 && strcmp(argv[1], "clean") == 0) return use("#debug/leaky/clean", 10);
  if (argc != 3 || strcmp(argv[1], "leak") != 0) return usage();

  char* end;
  errno = 0;
  long times = strtol(argv[2], &end, 10);
  if (errno != 0 || end == argv[2] || *end != '\0' || times < 0 || times == LONG_MAX) {
    fprintf(stderr, "leakdemo: %s: give a number of objects, 0 or more\n", argv[2]);
    return usage();
  }
  return use("#debug/leaky/leak", times);
}
