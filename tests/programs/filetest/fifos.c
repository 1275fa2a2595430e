/* FIFOs. */
#include <poll.h>

#include "filetest.h"

static int writes_text(void* argument) {
  (void)argument;
  int fd = open("fifo", O_WRONLY);
  return fd < 0 || write(fd, "text", 4) != 4;
}
static int reads_text(void* argument) {
  (void)argument;
  return !has_text("fifo", "back");
}
static int only_opens(void* argument) {
  return open("fifo", *(int*)argument) < 0;
}

void test_fifos(void) {
  struct stat now;
  char bytes[8];
  CHECK(FAILS(mknod("device", S_IFCHR | 0600, 1), EPERM));
  CHECK(mknod("plain", S_IFREG | 0600, 0) == 0 && unlink("plain") == 0);
  if (on_host) {
    CHECK(FAILS(mkfifo("fifo", 0640), EPERM));
    return;
  }
  CHECK(mkfifo("fifo", 0640) == 0 && FAILS(mkfifo("fifo", 0600), EEXIST));
  CHECK(stat("fifo", &now) == 0 && S_ISFIFO(now.st_mode) && (now.st_mode & 0777) == 0640);
  CHECK(FAILS(open("fifo", O_WRONLY | O_NONBLOCK), ENXIO));
  /* An open for reading waits for a writer, and an open for writing waits for a reader. */
  pid_t child = start_child_with(writes_text, NULL);
  wait_until_asleep(child);
  CHECK(has_text("fifo", "text") && exit_code_of(child) == 0);
  child = start_child_with(reads_text, NULL);
  wait_until_asleep(child);
  int fd = open("fifo", O_WRONLY);
  CHECK(fd >= 0 && FAILS(lseek(fd, 0, SEEK_CUR), ESPIPE) && write(fd, "back", 4) == 4);
  CHECK(fstat(fd, &now) == 0 && S_ISFIFO(now.st_mode) && now.st_nlink == 1);
  CHECK(fchmod(fd, 0600) == 0 && stat("fifo", &now) == 0 && (now.st_mode & 0777) == 0600);
  CHECK(exit_code_of(child) == 0 && close(fd) == 0);
  /* Opens with O_NONBLOCK do not wait. Some of them here use another name of the FIFO. */
  CHECK(link("fifo", "name") == 0);
  int reader = open("fifo", O_RDONLY | O_NONBLOCK);
  struct pollfd ready = {.fd = reader, .events = POLLIN};
  /* poll reports POLLHUP only if a writer has closed the FIFO since the reader opened the FIFO. */
  CHECK(poll(&ready, 1, 0) == 0 && read(reader, bytes, 1) == 0);
  int writer = open("name", O_WRONLY | O_NONBLOCK);
  CHECK(reader >= 0 && writer >= 0 && FAILS(read(reader, bytes, 1), EAGAIN));
  CHECK(poll(&ready, 1, 0) == 0);
  CHECK(write(writer, "abc", 3) == 3 && read(reader, bytes, 2) == 2 && bytes[1] == 'b');
  CHECK(poll(&ready, 1, 0) == 1 && ready.revents == POLLIN);
  int other = open("fifo", O_RDONLY | O_NONBLOCK), late;
  CHECK(close(writer) == 0 && poll(&ready, 1, 0) == 1 && ready.revents == (POLLIN | POLLHUP));
  CHECK(read(reader, bytes, 8) == 1 && read(reader, bytes, 8) == 0);
  CHECK(poll(&ready, 1, 0) == 1 && ready.revents == POLLHUP);
  ready.fd = other; /* `other` was opened before the writer closed */
  CHECK(poll(&ready, 1, 0) == 1 && ready.revents == POLLHUP);
  ready.fd = late = open("fifo", O_RDONLY | O_NONBLOCK);
  CHECK(poll(&ready, 1, 0) == 0 && close(late) == 0 && close(other) == 0);
  CHECK(close(reader) == 0);
  signal(SIGPIPE, SIG_IGN);
  reader = open("fifo", O_RDONLY | O_NONBLOCK), writer = open("fifo", O_WRONLY);
  CHECK(close(reader) == 0 && FAILS(write(writer, "x", 1), EPIPE) && close(writer) == 0);
  signal(SIGPIPE, SIG_DFL);
  int both = open("fifo", O_RDWR);
  CHECK(both >= 0 && write(both, "x", 1) == 1 && read(both, bytes, 8) == 1 && close(both) == 0);
  /* Kill processes while they wait. */
  for (int flags = O_RDONLY; flags <= O_WRONLY; flags++) {
    child = start_child_with(only_opens, &flags);
    wait_until_asleep(child);
    CHECK(kill(child, SIGKILL) == 0 && exit_code_of(child) == 128 + SIGKILL);
  }
  CHECK(FAILS(open("fifo", O_WRONLY | O_NONBLOCK), ENXIO));
  CHECK(unlink("fifo") == 0 && unlink("name") == 0);
}
