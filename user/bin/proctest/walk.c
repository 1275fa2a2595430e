/* proctest walk UID PATH…: does to each file and directory at and below PATH all that a program can
 * do, as user UID, in a session of its own.
 *
 * Each is opened in every way, read, listed, written with garbage, seeked, polled, asked for what a
 * terminal is asked for, and named to the calls that take a path. What somebody is denied is
 * silent. A line of output is a success that changes something (`wrote PATH`), a kernel address in
 * what is read (`address PATH`), or a file that is no device and never ends (`endless PATH`); each
 * is said once. The last line is how many names were walked.
 */
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>

#include "proctest.h"

enum { kMaxDepth = 8, kMaxEntries = 24, kLongest = 16 << 20 };

static const char* now; /* the path that is being walked */
static unsigned walked;
static char bytes[64 << 10];

static void say(const char* what) {
  static char said[512][96];
  static size_t count;
  char line[96];
  snprintf(line, sizeof line, "%s %s", what, now);
  for (size_t i = 0; i < count; i++) {
    if (strcmp(said[i], line) == 0) return;
  }
  if (count < sizeof said / sizeof *said) strcpy(said[count++], line);
  printf("%s\n", line);
  fflush(stdout);
}

/* Kernel addresses have the 17 highest bits set: as text 16 digits that begin with ffff and one
 * from 8 on. */
static int is_address(uint64_t value) {
  return value >> 47 == 0x1ffff && value < -(uint64_t)(1 << 20);
}
static void look(const char* data, size_t size) {
  if (strstr(now, "random") || strncmp(now, "#root", 5) == 0) return;
  for (size_t i = 0; i + sizeof(uint64_t) <= size; i++) {
    uint64_t value;
    memcpy(&value, data + i, sizeof value);
    if (is_address(value)) say("address");
    size_t digits = 0;
    while (i + digits < size && isxdigit((unsigned char)data[i + digits])) digits++;
    if (digits == 16 && is_address(strtoull(data + i, NULL, 16))) say("address");
    if (digits > 0) i += digits - 1;
  }
}

/* What a call said, and why it failed. */
static long told(long result) {
  char why[ABI_ERRSTR_MAX];
  if (result < 0) {
    const long length = RAW(errstr, why, sizeof why, 0);
    if (length > 0) look(why, (size_t)length);
  }
  return result;
}
static void changes(const char* what, long result) {
  if (told(result) >= 0) say(what);
}
static long take(long length) {
  if (told(length) > 0) look(bytes, (size_t)length);
  return length;
}

static const long places[] = {0,        1,        4095,      1L << 20, (1L << 31) - 1,
                              1L << 32, 1L << 48, INT64_MAX, -1};

static void read_everywhere(int fd, int is_file) {
  static const long sizes[] = {0, 1, 7, 4096, sizeof bytes};
  long all = 0, length;
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) take(RAW(read, fd, bytes, sizes[i]));
  while (is_file && (length = take(RAW(read, fd, bytes, sizeof bytes))) > 0) {
    if ((all += length) > kLongest) {
      say("endless");
      break;
    }
  }
  for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
    take(raw(ABI_SYS_pread, fd, (long)bytes, 4096, places[i], 0, 0));
    for (int whence = 0; whence <= 3; whence++) {
      told(RAW(lseek, fd, places[i], whence));
      take(RAW(read, fd, bytes, 512));
      take(RAW(getdents, fd, bytes, 16));
      take(RAW(getdents, fd, bytes, 4096));
    }
  }
  RAW(lseek, fd, 0, 0);
}

static void write_garbage(int fd) {
  static const char* const texts[] = {
      "\n",         "nonsense\n", "start\nstop\n", "panic",  "leak debug_64 1\n",
      "off now",    "cont",       "kill",          "settle", "reset",
      "failnext 1", "%s%n",       "\xff\1"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
    changes("wrote", RAW(write, fd, texts[i], strlen(texts[i])));
  memset(bytes, 'x', sizeof bytes);
  changes("wrote", RAW(write, fd, bytes, 5000));
  for (size_t i = 0; i < sizeof places / sizeof *places; i++)
    changes("wrote", raw(ABI_SYS_pwrite, fd, (long)"start\n", 6, places[i], 0, 0));
}

static void control(int fd) {
  struct abi_pollfd entry = {.fd = fd, .events = -1};
  told(RAW(poll, &entry, 1, 0));
  for (long request = 0; request < 10; request++) {
    union {
      struct abi_termios modes;
      int group;
      char room[256];
    } argument;
    memset(&argument, 0, sizeof argument);
    if (request == ABI_TCSPGRP) argument.group = getpid();
    const int sets = request >= ABI_TCSETS && request <= ABI_TCSETSF;
    if (sets || request == ABI_TCSPGRP)
      changes("set terminal", RAW(ioctl, fd, request, &argument));
    else if (told(RAW(ioctl, fd, request, &argument)) >= 0)
      look(argument.room, sizeof argument.room);
  }
}

static void open_in_every_way(const char* path, int is_file) {
  char own[32];
  snprintf(own, sizeof own, "/%d/ctl", (int)getpid());
  const int is_own = strstr(path, own) || strstr(path, "/self/ctl"); /* which it may kill */
  static const int ways[] = {O_RDONLY,
                             O_WRONLY,
                             O_RDWR,
                             O_ACCMODE,
                             O_RDONLY | O_TRUNC,
                             O_RDWR | O_APPEND,
                             O_WRONLY | O_TRUNC,
                             O_RDONLY | ABI_O_DIRECTORY,
                             O_RDWR | O_CREAT,
                             O_RDWR | O_CREAT | O_EXCL};
  for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
    const int fd = (int)told(RAW(open, path, ways[i] | O_NONBLOCK, 0600));
    if (fd < 0) continue;
    struct abi_stat stat;
    if (RAW(fstat, fd, &stat, 0) == 0) look((char*)&stat, sizeof stat);
    const int may_write = (ways[i] & O_ACCMODE) != O_RDONLY;
    read_everywhere(fd, is_file && i == 0);
    if (!is_own) write_garbage(fd);
    control(fd);
    if (may_write) changes("truncated", RAW(ftruncate, fd, 0, 0));
    const long copy = told(RAW(dup, fd, 0, 0));
    RAW(close, copy, 0, 0);
    RAW(close, fd, 0, 0);
  }
}

static void name_to_every_call(const char* path) {
  char inside[512], beside[512];
  snprintf(inside, sizeof inside, "%s/made", path);
  snprintf(beside, sizeof beside, "%s-moved", path);
  const long fd = told(RAW(open, inside, O_RDWR | O_CREAT, 0600));
  if (fd >= 0) {
    say("made a file in");
    RAW(close, fd, 0, 0);
    RAW(unlink, inside, 0, 0);
  }
  if (told(RAW(mkdir, inside, 0700, 0)) >= 0) {
    say("made a directory in");
    RAW(rmdir, inside, 0, 0);
  }
  changes("changed the mode of", RAW(chmod, path, 0777, 0));
  changes("truncated", RAW(truncate, path, 0, 0));
  changes("bound", RAW(bind, "#tmp", path, 0));
  changes("bound", RAW(bind, path, "/tmp", 0));
  changes("unmounted", RAW(unmount, path, 0, 0));
  if (told(RAW(rename, path, beside, 0)) >= 0) {
    say("renamed");
    RAW(rename, beside, path, 0);
  }
  changes("removed", RAW(rmdir, path, 0, 0));
  changes("removed", RAW(unlink, path, 0, 0));
}

static void walk(const char* path, int depth) {
  now = path;
  walked++;
  struct abi_stat stat;
  if (told(RAW(stat, path, &stat, 0)) < 0)
    stat.mode = 0;
  else
    look((char*)&stat, sizeof stat);
  told(RAW(access, path, 7, 0));
  open_in_every_way(path, (stat.mode & ABI_S_IFMT) != ABI_S_IFCHR);
  name_to_every_call(path);
  if ((stat.mode & ABI_S_IFMT) != ABI_S_IFDIR || depth == 0) return;
  if (told(RAW(chdir, path, 0, 0)) == 0) chdir("/");
  DIR* const directory = opendir(path);
  if (!directory) return;
  const struct dirent* entry;
  for (int n = 0; n < kMaxEntries && (entry = readdir(directory));) {
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
    char inside[512];
    snprintf(inside, sizeof inside, "%s/%s", path, entry->d_name);
    walk(inside, depth - 1);
    n++;
  }
  closedir(directory);
}

int walk_as(uid_t uid, int count, char** paths) {
  const pid_t child = fork();
  if (child != 0) {
    const int status = wait_for(child);
    if (!WIFEXITED(status)) printf("ended by signal %d\n", WTERMSIG(status));
    return !WIFEXITED(status) || WEXITSTATUS(status) != 0;
  }
  for (int i = 1; i < ABI_SIGNAL_COUNT; i++) {
    if (i != SIGSEGV && i != SIGTERM && i != SIGABRT) signal(i, SIG_IGN);
  }
  if (setsid() < 0 || setgid(uid) != 0 || setuid(uid) != 0) return 1;
  for (int i = 0; i < count; i++) walk(paths[i], kMaxDepth);
  printf("walked %u\n", walked);
  return 0;
}
