/* Mappings that reach beyond the end of a file; files that are truncated while they are mapped. */
#include "maptest.h"

static int only_zeros(const char* at, size_t size) {
  for (size_t i = 0; i < size; i++) {
    if (at[i] != 0) return 0;
  }
  return 1;
}

void test_ends(void) {
  int fd = make_file("ends", PAGE + 100);
  char* at = map(4 * PAGE, READ_WRITE, MAP_SHARED, fd, 0);
  char* own = map(4 * PAGE, READ_WRITE, MAP_PRIVATE, fd, 0);
  char found[10];
  CHECK(at[PAGE + 99] == byte_at(PAGE + 99) && only_zeros(at + PAGE + 100, PAGE - 100));
  CHECK(signal_of_read(at + 2 * PAGE) == BEYOND_END &&
        signal_of_write(at + 3 * PAGE) == BEYOND_END);
  CHECK(signal_of_read(own + 2 * PAGE) == BEYOND_END);
  CHECK(FAILS(read(fd, at + 2 * PAGE, 1), EFAULT) || lseek(fd, 0, SEEK_CUR) == PAGE + 100);
  CHECK(FAILS(pwrite(fd, at + 2 * PAGE, 1, 0), EFAULT));

  /* If a program writes to a mapping beyond the file's end, these bytes never get into the file,
   * even when the file grows. */
  strcpy(at + PAGE + 200, "behind");
  CHECK(msync(at, 2 * PAGE, MS_SYNC) == 0);
  CHECK(ftruncate(fd, 3 * PAGE + 1) == 0 && only_zeros(at + PAGE + 100, PAGE - 100));
  CHECK(pread(fd, found, 6, PAGE + 200) == 6 && only_zeros(found, 6));
  CHECK(only_zeros(at + 2 * PAGE, 2 * PAGE));
  at[3 * PAGE] = 'e';
  CHECK(pread(fd, found, 10, 3 * PAGE) == 1 && found[0] == 'e');

  /* After the file is truncated, its old contents do not come back when it grows. */
  at[PAGE + 50] = 'c';
  own[2 * PAGE] = 'o';
  CHECK(ftruncate(fd, PAGE + 10) == 0);
  CHECK(signal_of_read(at + 2 * PAGE) == BEYOND_END &&
        signal_of_write(at + 3 * PAGE) == BEYOND_END);
  CHECK(only_zeros(at + PAGE + 10, PAGE - 10) && at[PAGE + 9] == byte_at(PAGE + 9));
  CHECK(ftruncate(fd, 4 * PAGE) == 0 && only_zeros(at + PAGE + 10, 3 * PAGE - 10));
  CHECK(own[2 * PAGE] == 'o');
  CHECK(pwrite(fd, "tail", 4, 6 * PAGE) == 4 && at[4 * PAGE - 1] == 0);
  int cut = open("ends", O_RDWR | O_TRUNC);
  CHECK(signal_of_read(at) == BEYOND_END);
  CHECK(write(cut, "new", 3) == 3 && memcmp(at, "new", 4) == 0);
  close(cut);
  close(fd);
  CHECK(munmap(at, 4 * PAGE) == 0 && munmap(own, 4 * PAGE) == 0);
  struct stat status;
  CHECK(stat("ends", &status) == 0 && status.st_size == 3);
  unlink("ends");
}
