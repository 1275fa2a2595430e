/* Calls that are refused. */
#include <sys/resource.h>

#include "maptest.h"

void test_errors(void) {
  int fd = make_file("errors", 2 * PAGE), reads = open("errors", O_RDONLY),
      writes = open("errors", O_WRONLY), folder = open(".", O_RDONLY);
  int fds[2];
  CHECK(pipe(fds) == 0);
  CHECK(FAILS(mmap(NULL, PAGE, PROT_READ, MAP_SHARED, -1, 0), EBADF));
  CHECK(FAILS(mmap(NULL, PAGE, PROT_READ, MAP_SHARED, writes, 0), EACCES));
  CHECK(FAILS(mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, writes, 0), EACCES));
  CHECK(FAILS(mmap(NULL, PAGE, READ_WRITE, MAP_SHARED, reads, 0), EACCES));
  CHECK(FAILS(mmap(NULL, PAGE, PROT_READ, MAP_SHARED, folder, 0), ENODEV));
  CHECK(FAILS(mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fds[0], 0), ENODEV));
  CHECK(FAILS(mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 100), EINVAL));
  CHECK(FAILS(mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, -PAGE), EINVAL));
  CHECK(FAILS(mmap(NULL, 0, PROT_READ, MAP_SHARED, fd, 0), EINVAL));
  CHECK(FAILS(mmap(NULL, PAGE, PROT_READ, 0, fd, 0), EINVAL));
  CHECK(FAILS(mmap(NULL, PAGE, PROT_READ, MAP_SHARED | MAP_PRIVATE, fd, 0), EINVAL));
  CHECK(FAILS(mmap(NULL, PAGE, 16, MAP_PRIVATE, fd, 0), EINVAL));
  CHECK(FAILS(mmap(NULL, (size_t)1 << 62, PROT_READ, MAP_PRIVATE, fd, 0), ENOMEM));
  CHECK(FAILS(mmap(NULL, (size_t)1 << 62, READ_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0), ENOMEM));

  char* at = map(2 * PAGE, PROT_READ, MAP_SHARED, reads, 0);
  CHECK(FAILS(mprotect(at, PAGE, READ_WRITE), EACCES) && at[0] == byte_at(0));
  CHECK(mprotect(at, PAGE, PROT_NONE) == 0 && mprotect(at, PAGE, PROT_READ | PROT_EXEC) == 0);
  char* own = map(2 * PAGE, READ_WRITE, MAP_PRIVATE, reads, 0);
  own[0] = 'o';
  CHECK(at[0] == byte_at(0));
  CHECK(FAILS(msync(at + 1, PAGE, MS_SYNC), EINVAL) && FAILS(msync(at, PAGE, 64), EINVAL));
  CHECK(FAILS(msync(at, PAGE, MS_SYNC | MS_ASYNC), EINVAL));
  CHECK(munmap(at + PAGE, PAGE) == 0 && FAILS(msync(at, 2 * PAGE, MS_SYNC), ENOMEM));
  munmap(at, PAGE);
  munmap(own, 2 * PAGE);

  struct rlimit before, limit;
  getrlimit(RLIMIT_AS, &before);
  limit = before;
  limit.rlim_cur = 64 << 20;
  setrlimit(RLIMIT_AS, &limit);
  CHECK(FAILS(mmap(NULL, 64 << 20, PROT_READ, MAP_SHARED, fd, 0), ENOMEM));
  setrlimit(RLIMIT_AS, &before);
  int all[] = {fd, reads, writes, folder, fds[0], fds[1]};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) close(all[i]);
  unlink("errors");
}
