/* Descriptors: limits, pipes, polling, positions. */
#include <limits.h>
#include <sys/select.h>

#include "proctest.h"

enum { kWriters = 4, kLines = 300 };

static int writes_lines(void* argument) {
  for (int i = 0; i < kLines; i++) EXPECT(write(*(int*)argument, "line\n", 5) == 5);
  return 0;
}

/* Several processes write to one open file at once: nothing is lost. */
static void test_shared_position(const char* path) {
  int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0644);
  pid_t writers[kWriters];
  for (int i = 0; i < kWriters; i++) writers[i] = start_child_with(writes_lines, &fd);
  for (int i = 0; i < kWriters; i++) EXPECT(status_of(writers[i]) == 0);
  struct stat status;
  EXPECT(fstat(fd, &status) == 0 && status.st_size == kWriters * kLines * 5);
  EXPECT(lseek(fd, 0, SEEK_CUR) == kWriters * kLines * 5);
  close(fd);
  unlink(path);
}

static void test_append(const char* path) {
  int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0644);
  EXPECT(write(fd, "0123456789", 10) == 10);
  close(fd);
  fd = open(path, O_RDWR | O_APPEND);
  char bytes[4];
  EXPECT(lseek(fd, 2, SEEK_SET) == 2);
  EXPECT(write(fd, "abc", 3) == 3 && lseek(fd, 0, SEEK_CUR) == 13);
  EXPECT(read(fd, bytes, 4) == 0);
  EXPECT(lseek(fd, 2, SEEK_SET) == 2);
  EXPECT(pwrite(fd, "de", 2, 0) == 2 && lseek(fd, 0, SEEK_CUR) == 2); /* pwrite appends, too */
  EXPECT(read(fd, bytes, 4) == 4 && memcmp(bytes, "2345", 4) == 0);
  struct stat status;
  EXPECT(fstat(fd, &status) == 0 && status.st_size == 15);
  close(fd);
  unlink(path);
}

static int switches_append(void* argument) {
  for (;;) {
    EXPECT(fcntl(*(int*)argument, F_SETFL, O_APPEND) == 0);
    EXPECT(fcntl(*(int*)argument, F_SETFL, 0) == 0);
  }
  return 0;
}

/* Another process sets and clears O_APPEND while this process writes. Each write goes atomically
 * either to the end of the file or to the offset, and moves the offset to the end of the written
 * bytes. */
static void test_append_switched(const char* path) {
  int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0644);
  EXPECT(ftruncate(fd, 100) == 0);
  pid_t child = start_child_with(switches_append, &fd);
  int good = 1;
  for (int i = 0; good && i < 5000; i++) {
    struct stat status;
    good = lseek(fd, 10, SEEK_SET) == 10 && write(fd, "12345678", 8) == 8;
    off_t after = lseek(fd, 0, SEEK_CUR);
    good = good && fstat(fd, &status) == 0 && (after == 18 || after == status.st_size);
    good = good && pwrite(fd, "abc", 3, 50) == 3 && lseek(fd, 0, SEEK_CUR) == after;
  }
  EXPECT(good);
  kill(child, SIGKILL);
  status_of(child);
  close(fd);
  unlink(path);
}

/* poll counts its timeout in milliseconds, in an int. select must also accept longer timeouts, and
 * must not cut them short: select still waits when a child writes to the pipe after 20 ms. */
static void test_select(void) {
  int ends[2];
  EXPECT(pipe(ends) == 0);
  fd_set reading;
  struct timeval times[] = {
      {LONG_MAX, 0}, {1l << 32, 0}, {4294967, 296000}, {LONG_MAX / 1000 + 1, 0}};
  for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
    FD_ZERO(&reading);
    FD_SET(ends[0], &reading);
    pid_t child = fork();
    if (child == 0) {
      pause_ms(20);
      _exit((int)write(ends[1], "", 1));
    }
    EXPECT(select(ends[0] + 1, &reading, NULL, NULL, &times[i]) == 1);
    char byte;
    EXPECT(read(ends[0], &byte, 1) == 1);
    status_of(child);
  }
  struct timeval wrong[] = {{-1, 0}, {0, -1}, {0, 1000000}};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    FD_ZERO(&reading);
    errno = 0;
    EXPECT(select(0, &reading, NULL, NULL, &wrong[i]) < 0 && errno == EINVAL);
  }
  close(ends[0]);
  close(ends[1]);
}

/* openat with a directory's descriptor must not change the current directory, even if the current
 * directory has been removed. */
static void test_openat(void) {
  EXPECT(mkdir("/tmp/proctest.dir", 0755) == 0 && mkdir("/tmp/proctest.gone", 0755) == 0);
  int directory = open("/tmp/proctest.dir", O_RDONLY | O_DIRECTORY);
  EXPECT(chdir("/tmp/proctest.gone") == 0 && rmdir("/tmp/proctest.gone") == 0);
  errno = 0;
  int fd = openat(directory, "made", O_RDWR | O_CREAT, 0644);
  char name[100];
  EXPECT(fd >= 0 || errno != 0);
  EXPECT(getcwd(name, sizeof name) == NULL || strcmp(name, "/tmp/proctest.gone") == 0);
  close(fd);
  unlink("/tmp/proctest.dir/made");
  close(directory);
  EXPECT(chdir("/") == 0 && rmdir("/tmp/proctest.dir") == 0);
}

/* Random numbers must not come from the generator splitmix64, which mixes the values of a counter.
 * unmixed() undoes the mixing. Unmixed numbers must not be successive values of the counter. */
static uint64_t unmixed(uint64_t z) {
  z = (z ^ z >> 31 ^ z >> 62) * 0x319642b2d24d8ec3;
  z = (z ^ z >> 27 ^ z >> 54) * 0x96de1b173f119089;
  return z ^ z >> 30 ^ z >> 60;
}
static void test_entropy(void) {
  uint64_t words[32];
  int near = 0;
  EXPECT(STELE_CALL(getentropy, words, sizeof words) == 0);
  for (int i = 1; i < 32; i++)
    near += unmixed(words[i]) - unmixed(words[i - 1]) - 0x9e3779b97f4a7c15 < 1u << 30;
  EXPECT(near == 0);
  EXPECT(STELE_CALL(getentropy, words, 257) == -EIO);
}

void test_descriptors(void) {
  int fds[300], n = 0;
  while (n < 300 && (fds[n] = dup(1)) >= 0) n++;
  EXPECT(n < 300 && errno == EMFILE);
  EXPECT(open("/bin/sh", O_RDONLY) < 0 && errno == EMFILE);
  int ends[2];
  EXPECT(pipe(ends) < 0);
  close(fds[n - 1]);
  EXPECT(pipe(ends) < 0 &&
         errno == EMFILE); /* a pipe needs two descriptors; the only free one stays free */
  EXPECT(dup(1) == fds[n - 1]);
  for (int i = 0; i < n; i++) close(fds[i]);
  EXPECT(STELE_CALL(close, 77) == -EBADF && STELE_CALL(close, -1) == -EBADF &&
         STELE_CALL(dup2, 1, 9999, 0) == -EBADF);

  EXPECT(STELE_CALL(pipe2, ends, ABI_O_NONBLOCK) == 0);
  char block[70000];
  memset(block, 'b', sizeof block);
  EXPECT(STELE_CALL(read, ends[0], block, 10) == -EAGAIN);
  struct abi_pollfd polls[3] = {
      {ends[0], ABI_POLLIN, 0}, {ends[1], ABI_POLLOUT, 0}, {99, ABI_POLLIN, 0}};
  EXPECT(poll_ms(polls, 3, 0) == 2 && polls[0].revents == 0 && polls[1].revents == ABI_POLLOUT &&
         polls[2].revents == ABI_POLLNVAL);
  EXPECT(poll_ms(polls, 1, 20) == 0);
  long put = STELE_CALL(write, ends[1], block, sizeof block), total = put;
  EXPECT(put > 0);
  while (put > 0) {
    put = STELE_CALL(write, ends[1], block, sizeof block);
    if (put > 0) total += put;
  }
  EXPECT(put == -EAGAIN);
  EXPECT(poll_ms(polls, 2, -1) == 1 && polls[0].revents == ABI_POLLIN && polls[1].revents == 0);
  long got;
  while ((got = STELE_CALL(read, ends[0], block, sizeof block)) > 0) total -= got;
  EXPECT(got == -EAGAIN && total == 0);
  EXPECT(STELE_CALL(lseek, ends[0], 0, 0) == -ESPIPE &&
         STELE_CALL(pread, ends[0], block, 1, 0) == -ESPIPE);
  EXPECT(STELE_CALL(write, ends[0], "x", 1) == -EBADF &&
         STELE_CALL(read, ends[1], block, 1) == -EBADF);
  close(ends[1]);
  EXPECT(STELE_CALL(read, ends[0], block, 1) == 0);
  close(ends[0]);

  int fd = open("/tmp/proctest.file", O_RDWR | O_CREAT | O_TRUNC, 0644);
  EXPECT(write(fd, block, sizeof block) == sizeof block);
  EXPECT(lseek(fd, 0, SEEK_END) == sizeof block && lseek(fd, -10, SEEK_CUR) == sizeof block - 10);
  EXPECT(lseek(fd, -1, SEEK_SET) < 0 && lseek(fd, 0, 7) < 0);
  EXPECT(read(fd, block, 100) == 10 && read(fd, block, 100) == 0);
  int copy = dup(fd);
  lseek(fd, 5, SEEK_SET);
  EXPECT(lseek(copy, 0, SEEK_CUR) == 5); /* both descriptors share one position */
  EXPECT(STELE_CALL(pwrite, fd, "xyz", 3, 100) == 3 && STELE_CALL(pread, fd, block, 3, 100) == 3);
  EXPECT(memcmp(block, "xyz", 3) == 0 && lseek(fd, 0, SEEK_CUR) == 5);
  EXPECT(STELE_CALL(ftruncate, fd, 50) == 0 && STELE_CALL(ftruncate, fd, -1) == -EINVAL);
  struct stat status;
  EXPECT(fstat(fd, &status) == 0 && status.st_size == 50);
  EXPECT(fcntl(fd, F_DUPFD, 100) == 100 && fcntl(100, F_GETFD) == 0 &&
         fcntl(100, F_SETFD, FD_CLOEXEC) == 0);
  EXPECT(fcntl(100, F_GETFD) == FD_CLOEXEC && fcntl(fd, F_GETFL) == O_RDWR &&
         fcntl(fd, F_DUPFD, 9999) < 0);
  close(100);
  close(copy);
  close(fd);
  unlink("/tmp/proctest.file");
  EXPECT(STELE_CALL(read, 0, block, 0) <= 0);
  test_shared_position("/tmp/proctest.file");
  test_append("/tmp/proctest.file");
  test_append_switched("/tmp/proctest.file");
  /* Fails if the host shares no directory with the guest. */
  int host = open("/host/proctest.file", O_WRONLY | O_CREAT, 0644);
  close(host);
  if (host >= 0) {
    test_shared_position("/host/proctest.file");
    test_append("/host/proctest.file");
  }
  test_select();
  test_openat();
  test_entropy();
}
