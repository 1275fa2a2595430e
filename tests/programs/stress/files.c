/* Pipes, files, folders, the namespace, and the files of devices. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <stele.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "stress.h"

enum { NAME = 300 };

static unsigned char byte_at(uint64_t at, unsigned key) {
  return (unsigned char)((at * 2654435761u >> 7) + key);
}

static void fill(unsigned char* to, size_t size, uint64_t at, unsigned key) {
  for (size_t i = 0; i < size; i++) to[i] = byte_at(at + i, key);
}

static bool matches(const unsigned char* bytes, size_t size, uint64_t at, unsigned key) {
  for (size_t i = 0; i < size; i++)
    if (bytes[i] != byte_at(at + i, key)) return false;
  return true;
}

/* ---- Pipes. */

static void write_stream(int to, unsigned key, uint64_t bytes) {
  unsigned char buffer[12000];
  for (uint64_t at = 0; at < bytes;) {
    size_t size = 1 + random_below(sizeof buffer);
    if (size > bytes - at) size = (size_t)(bytes - at);
    fill(buffer, size, at, key);
    ssize_t n = write(to, buffer, size);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return;
    at += (uint64_t)n;
  }
}

static void read_stream(int from, unsigned key) {
  unsigned char buffer[12000];
  for (uint64_t at = 0;;) {
    ssize_t n = read(from, buffer, 1 + random_below(sizeof buffer));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0 || random_one_in(100)) return;
    if (!matches(buffer, (size_t)n, at, key))
      failed("a pipe's bytes differ at %lu", (unsigned long)at);
    at += (uint64_t)n;
  }
}

void pipes(void) {
  int ends[2];
  if (pipe(ends) != 0) return;
  unsigned key = (unsigned)random_any();
  uint64_t bytes = random_below(200000);
  pid_t writer = spawn();
  if (writer == 0) {
    close(ends[0]);
    write_stream(ends[1], key, bytes);
    _exit(0);
  }
  close(ends[1]);
  pid_t reader = random_one_in(2) ? spawn() : -1;
  if (reader == 0) {
    if (random_one_in(4)) pause_us(random_below(5000));
    read_stream(ends[0], key);
    _exit(0);
  }
  if (reader < 0) read_stream(ends[0], key);
  close(ends[0]);
  finish(writer);
  finish(reader);
}

void polls(void) {
  int ends[4][2];
  struct pollfd polled[8];
  for (int i = 0; i < 4; i++) {
    if (pipe2(ends[i], O_NONBLOCK | O_CLOEXEC) != 0) ends[i][0] = ends[i][1] = -1;
    polled[2 * i] = (struct pollfd){ends[i][0], POLLIN, 0};
    polled[2 * i + 1] = (struct pollfd){ends[i][1], POLLOUT, 0};
  }
  pid_t child = spawn();
  char bytes[3000] = {0};
  for (int i = 0; i < 100; i++) {
    poll(polled, 8, (int)random_below(3));
    int which = (int)random_below(4);
    if (random_one_in(2))
      write(ends[which][1], bytes, random_below(sizeof bytes));
    else
      read(ends[which][0], bytes, random_below(sizeof bytes));
  }
  if (child == 0) _exit(0);
  for (int i = 0; i < 4; i++) {
    close(ends[i][0]);
    close(ends[i][1]);
  }
  finish(child);
}

/* ---- Files. */

static void make_name(char* name, const char* what) {
  snprintf(name, NAME, FOLDER "/%s.%d.%u", what, getpid(), (unsigned)random_below(1000000));
}

/* Writes and reads one file at random offsets, truncates it, and renames or removes it while it is
 * open. Each byte is 0 or follows from its offset. */
void files(void) {
  char name[NAME], other[NAME];
  make_name(name, "file");
  make_name(other, "moved");
  int fd = open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return;
  unsigned key = (unsigned)random_any();
  unsigned char buffer[9000];
  bool moved = false;
  uint64_t end = 0; /* size of the file */
  for (int i = 0; i < 40; i++) {
    uint64_t at = random_below(random_one_in(8) ? 2000000 : 60000);
    size_t size = 1 + random_below(sizeof buffer);
    ssize_t n;
    switch (random_below(6)) {
      case 0:
      case 1:
        fill(buffer, size, at, key);
        n = pwrite(fd, buffer, size, (off_t)at);
        if (n > 0 && at + (uint64_t)n > end) end = at + (uint64_t)n;
        break;
      case 2:
      case 3:
        n = pread(fd, buffer, size, (off_t)at);
        for (ssize_t j = 0; j < n; j++)
          if (buffer[j] != 0 && buffer[j] != byte_at(at + (uint64_t)j, key)) {
            failed("a file's byte %lu is %u", (unsigned long)at + (unsigned long)j, buffer[j]);
            break;
          }
        if (n > 0 && at + (uint64_t)n > end) failed("a file has more bytes than were written");
        break;
      case 4:
        if (random_one_in(4) && ftruncate(fd, (off_t)at) == 0) end = at;
        break;
      default:
        if (random_one_in(4) && rename(moved ? other : name, moved ? name : other) == 0)
          moved = !moved;
        if (random_one_in(16)) unlink(moved ? other : name);
    }
  }
  close(fd);
  unlink(name);
  unlink(other);
}

/* Children append lines to one file; no line is lost or torn. */
void appends(void) {
  enum { CHILDREN = 3, LINES = 60, LINE = 32 /* divides a page: no line is written in part */ };
  char name[NAME], line[64];
  make_name(name, "lines");
  int fd = open(name, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (fd < 0) return;
  pid_t children[CHILDREN];
  for (int i = 0; i < CHILDREN; i++) {
    children[i] = spawn();
    if (children[i] != 0) continue;
    for (int j = 0; j < LINES; j++) {
      snprintf(line, sizeof line, "child %02d line %017d\n", i, j);
      if (write(fd, line, LINE) != LINE) _exit(1);
    }
    _exit(0);
  }
  int lines = 0;
  for (int i = 0; i < CHILDREN; i++) {
    int status = 1;
    while (children[i] > 0 && waitpid(children[i], &status, 0) < 0 && errno == EINTR) {
    }
    if (status == 0) lines += LINES;
  }
  char read_line[LINE];
  int whole = 0;
  for (off_t at = 0; pread(fd, read_line, LINE, at) == LINE; at += LINE)
    whole += strncmp(read_line, "child ", 6) == 0 && read_line[LINE - 1] == '\n';
  if (whole < lines) failed("%d lines were appended, %d are there", lines, whole);
  close(fd);
  unlink(name);
}

void folders(void) {
  char top[NAME], name[NAME + 64], other[NAME + 64];
  make_name(top, "folder");
  if (mkdir(top, 0700) != 0) return;
  for (int i = 0; i < 30; i++) {
    snprintf(name, sizeof name, "%s/%u", top, (unsigned)random_below(6));
    snprintf(other, sizeof other, "%s/%u", top, (unsigned)random_below(6));
    switch (random_below(7)) {
      case 0:
        mkdir(name, 0755);
        break;
      case 1:
        close(open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
        break;
      case 2:
        rename(name, other);
        break;
      case 3:
        rmdir(name);
        break;
      case 4:
        unlink(name);
        break;
      case 5:
        if (chdir(name) == 0) chdir("..");
        break;
      default:
        any_entry(top, other, sizeof other);
    }
  }
  chdir("/");
  for (int i = 0; i < 6; i++) {
    snprintf(name, sizeof name, "%s/%d", top, i);
    if (unlink(name) != 0) rmdir(name);
  }
  rmdir(top);
}

/* Binds folders and looks at them. All workers share one namespace, so another worker may undo a
 * bind at any time. */
void binds(void) {
  static const char* const sources[] = {"#null", "#proc", "/bin",   "#mem",
                                        FOLDER,  "#tmp",  "#random"};
  char target[NAME], name[NAME + 300], entry[256];
  snprintf(target, sizeof target, FOLDER "/m%u", (unsigned)random_below(MOUNTS));
  ns_bind(sources[random_below(7)], target,
          (int)random_below(3) | (random_one_in(2) ? NS_CREATE : 0));
  for (int i = 0; i < 5; i++) {
    if (!any_entry(target, entry, sizeof entry)) break;
    snprintf(name, sizeof name, "%s/%s", target, entry);
    struct stat status;
    stat(name, &status);
  }
  snprintf(name, sizeof name, "%s/made.%d", target, getpid());
  int fd = open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  if (random_one_in(2)) ns_unmount(target);
  if (fd >= 0) {
    close(fd);
    unlink(name);
    snprintf(name, sizeof name, FOLDER "/made.%d", getpid());
    unlink(name);
    snprintf(name, sizeof name, "/tmp/made.%d", getpid());
    unlink(name);
  }
  while (random_one_in(2) && ns_unmount(target) == 0) {
  }
}

/* Reads a random file of a device or folder at random offsets. */
void devices(void) {
  static const char* const folders[] = {"#mem",  "#mem/kmemtrace", "/proc", "/proc/self", "#probe",
                                        "#null", "#random",        "/",     "#cons",      "/bin"};
  char entry[256], name[600], below_it[256], buffer[5000];
  const char* folder = folders[random_below(10)];
  if (!any_entry(folder, entry, sizeof entry)) return;
  snprintf(name, sizeof name, "%s/%s", folder, entry);
  if (any_entry(name, below_it, sizeof below_it)) {
    size_t length = strlen(name);
    snprintf(name + length, sizeof name - length, "/%s", below_it);
  }
  int fd = open(name, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return;
  struct stat status;
  fstat(fd, &status);
  struct pollfd polled = {fd, POLLIN | POLLOUT, 0};
  poll(&polled, 1, 0);
  if (!strstr(name, "cons") && !strstr(name, "tty"))
    for (unsigned i = (unsigned)random_below(20); i > 0; i--) {
      if (random_one_in(4)) lseek(fd, (off_t)random_below(20000), SEEK_SET);
      if (read(fd, buffer, 1 + random_below(sizeof buffer)) <= 0) break;
    }
  close(fd);
}
