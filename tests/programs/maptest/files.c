/* Mappings of files: reads and writes, and which files and mappings show the writes. */
#include "maptest.h"

static int is_as_made(const char* at, size_t from, size_t size) {
  for (size_t i = 0; i < size; i++) {
    if (at[i] != byte_at(from + i)) return 0;
  }
  return 1;
}

static void test_private(void) {
  int fd = make_file("private", 3 * PAGE);
  char* at = map(3 * PAGE, READ_WRITE, MAP_PRIVATE, fd, 0);
  char* offset = map(PAGE, PROT_READ, MAP_PRIVATE, fd, 2 * PAGE);
  CHECK(is_as_made(at, 0, 3 * PAGE) && is_as_made(offset, 2 * PAGE, PAGE));
  at[5] = 'x'; /* writes to a page that has been read */
  at[2 * PAGE + 5] = 'y';
  char found[2];
  CHECK(pread(fd, found, 1, 5) == 1 && found[0] == byte_at(5) &&
        offset[5] == byte_at(2 * PAGE + 5));
  char* fresh = map(PAGE, READ_WRITE, MAP_PRIVATE, fd, PAGE);
  fresh[9] = 'z'; /* writes to a page that has not been read */
  CHECK(is_as_made(at + PAGE, PAGE, PAGE) && is_as_made(fresh + 10, PAGE + 10, PAGE - 10));
  close(fd);
  CHECK(at[5] == 'x' && at[2 * PAGE + 5] == 'y' && is_as_made(at + 6, 6, PAGE - 6));
  CHECK(munmap(at, 3 * PAGE) == 0 && munmap(offset, PAGE) == 0 && munmap(fresh, PAGE) == 0);
  CHECK(unlink("private") == 0);
}

static void test_shared(void) {
  int fd = make_file("shared", 4 * PAGE), other = open("shared", O_RDWR);
  char* at = map(4 * PAGE, READ_WRITE, MAP_SHARED, fd, 0);
  char* again = map(PAGE, PROT_READ, MAP_SHARED, other, PAGE);
  char found[20];
  CHECK(is_as_made(at, 0, 4 * PAGE));
  strcpy(at + PAGE + 10, "by the map");
  CHECK(strcmp(again + 10, "by the map") == 0);
  CHECK(pread(other, found, 11, PAGE + 10) == 11 && strcmp(found, "by the map") == 0);
  CHECK(pwrite(other, "by write", 9, PAGE + 20) == 9 && strcmp(at + PAGE + 20, "by write") == 0);
  /* Both mappings show a write across the boundary of two pages. */
  char* last = map(PAGE, READ_WRITE, MAP_SHARED, other, 3 * PAGE);
  CHECK(pwrite(fd, "0123456789", 10, 3 * PAGE - 5) == 10 && memcmp(last, "56789", 5) == 0 &&
        memcmp(at + 3 * PAGE - 5, "01234", 5) == 0);
  CHECK(pread(fd, found, 10, 3 * PAGE - 5) == 10 && memcmp(found, "0123456789", 10) == 0);
  CHECK(msync(at, 4 * PAGE, MS_SYNC) == 0 && msync(at, PAGE, MS_ASYNC | MS_INVALIDATE) == 0);
  strcpy(at, "after msync");
  CHECK(fsync(other) == 0 && close(fd) == 0 && close(other) == 0);
  strcpy(at + 100, "after close");
  CHECK(munmap(at, 4 * PAGE) == 0 && munmap(again, PAGE) == 0 && munmap(last, PAGE) == 0);
  fd = open("shared", O_RDONLY);
  CHECK(read(fd, found, 12) == 12 && strcmp(found, "after msync") == 0);
  CHECK(pread(fd, found, 12, 100) == 12 && strcmp(found, "after close") == 0);
  at = map(PAGE, PROT_READ, MAP_SHARED, fd, 0);
  CHECK(strcmp(at + 100, "after close") == 0);
  close(fd);
  munmap(at, PAGE);
  CHECK(unlink("shared") == 0);
}

static void test_nameless(void) {
  int fd = make_file("nameless", PAGE);
  char* at = map(PAGE, READ_WRITE, MAP_SHARED, fd, 0);
  at[0] = 'n';
  CHECK(unlink("nameless") == 0 && close(fd) == 0);
  CHECK(at[0] == 'n' && is_as_made(at + 1, 1, PAGE - 1));
  at[1] = 'm';
  /* A new file of the same name is another file. */
  fd = make_file("nameless", PAGE);
  char* other = map(PAGE, READ_WRITE, MAP_SHARED, fd, 0);
  CHECK(is_as_made(other, 0, PAGE) && at[1] == 'm');
  close(fd);
  munmap(at, PAGE);
  munmap(other, PAGE);
  unlink("nameless");
}

static void test_fixed(void) {
  int fd = make_file("fixed", 4 * PAGE);
  char* at = map(8 * PAGE, READ_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memset(at, 'a', 8 * PAGE);
  CHECK(mmap(at + 2 * PAGE, 3 * PAGE, READ_WRITE, MAP_SHARED | MAP_FIXED, fd, PAGE) ==
        at + 2 * PAGE);
  CHECK(at[2 * PAGE - 1] == 'a' && at[5 * PAGE] == 'a' &&
        is_as_made(at + 2 * PAGE, PAGE, 3 * PAGE));
  /* Unmaps the middle page of the file's mapping. The following page keeps its file offset. */
  CHECK(munmap(at + 3 * PAGE, PAGE) == 0 && signal_of_read(at + 3 * PAGE) == NOT_MAPPED);
  at[4 * PAGE] = 'f';
  char found;
  CHECK(pread(fd, &found, 1, 3 * PAGE) == 1 && found == 'f');
  CHECK(mmap(at, 8 * PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == at);
  CHECK(at[2 * PAGE] == 0 && at[7 * PAGE] == 0);
  close(fd);
  munmap(at, 8 * PAGE);
  unlink("fixed");
}

void test_files(void) {
  test_private();
  test_shared();
  test_nameless();
  test_fixed();
}
