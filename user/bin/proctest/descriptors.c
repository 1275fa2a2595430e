/* Descriptors: limits, pipes, polling, positions. */
#include "proctest.h"

void test_descriptors(void) {
  int fds[300], n = 0;
  while (n < 300 && (fds[n] = dup(1)) >= 0) n++;
  EXPECT(n < 300 && errno == EMFILE);
  EXPECT(open("/bin/sh", O_RDONLY) < 0 && errno == EMFILE);
  int ends[2];
  EXPECT(pipe(ends) < 0);
  close(fds[n - 1]);
  EXPECT(pipe(ends) < 0 &&
         errno == EMFILE); /* room for one is not enough, and the one is free again */
  EXPECT(dup(1) == fds[n - 1]);
  for (int i = 0; i < n; i++) close(fds[i]);
  EXPECT(RAW(close, 77, 0, 0) == -EBADF && RAW(close, -1, 0, 0) == -EBADF &&
         RAW(dup2, 1, 9999, 0) == -EBADF);

  EXPECT(RAW(pipe2, ends, ABI_O_NONBLOCK, 0) == 0);
  char block[70000];
  memset(block, 'b', sizeof block);
  EXPECT(RAW(read, ends[0], block, 10) == -EAGAIN);
  struct abi_pollfd polls[3] = {
      {ends[0], ABI_POLLIN, 0}, {ends[1], ABI_POLLOUT, 0}, {99, ABI_POLLIN, 0}};
  EXPECT(RAW(poll, polls, 3, 0) == 2 && polls[0].revents == 0 && polls[1].revents == ABI_POLLOUT &&
         polls[2].revents == ABI_POLLNVAL);
  EXPECT(RAW(poll, polls, 1, 20) == 0);
  long put = RAW(write, ends[1], block, sizeof block), total = put;
  EXPECT(put > 0);
  while (put > 0) {
    put = RAW(write, ends[1], block, sizeof block);
    if (put > 0) total += put;
  }
  EXPECT(put == -EAGAIN);
  EXPECT(RAW(poll, polls, 2, -1) == 1 && polls[0].revents == ABI_POLLIN && polls[1].revents == 0);
  long got;
  while ((got = RAW(read, ends[0], block, sizeof block)) > 0) total -= got;
  EXPECT(got == -EAGAIN && total == 0);
  EXPECT(RAW(lseek, ends[0], 0, 0) == -ESPIPE &&
         raw(ABI_SYS_pread, ends[0], (long)block, 1, 0, 0, 0) == -ESPIPE);
  EXPECT(RAW(write, ends[0], "x", 1) == -EBADF && RAW(read, ends[1], block, 1) == -EBADF);
  close(ends[1]);
  EXPECT(RAW(read, ends[0], block, 1) == 0);
  close(ends[0]);

  int fd = open("/tmp/proctest.file", O_RDWR | O_CREAT | O_TRUNC, 0644);
  EXPECT(write(fd, block, sizeof block) == sizeof block);
  EXPECT(lseek(fd, 0, SEEK_END) == sizeof block && lseek(fd, -10, SEEK_CUR) == sizeof block - 10);
  EXPECT(lseek(fd, -1, SEEK_SET) < 0 && lseek(fd, 0, 7) < 0);
  EXPECT(read(fd, block, 100) == 10 && read(fd, block, 100) == 0);
  int copy = dup(fd);
  lseek(fd, 5, SEEK_SET);
  EXPECT(lseek(copy, 0, SEEK_CUR) == 5); /* one open file, one position */
  EXPECT(raw(ABI_SYS_pwrite, fd, (long)"xyz", 3, 100, 0, 0) == 3 &&
         raw(ABI_SYS_pread, fd, (long)block, 3, 100, 0, 0) == 3);
  EXPECT(memcmp(block, "xyz", 3) == 0 && lseek(fd, 0, SEEK_CUR) == 5);
  EXPECT(RAW(ftruncate, fd, 50, 0) == 0 && RAW(ftruncate, fd, -1, 0) == -EINVAL);
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
  EXPECT(RAW(read, 0, block, 0) <= 0);
}
