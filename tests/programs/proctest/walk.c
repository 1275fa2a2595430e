/* proctest walk UID PATH…: makes every possible call on each file and directory at and below PATH,
 * as user UID, in a session of its own. proctest crowd UID N PATH…: N users, with ids from UID on,
 * make these calls at the same time, while processes of another user start and end.
 *
 * The walk opens each file in every way. It reads, lists, seeks and polls the open file, writes
 * garbage and asks for terminal settings. It also makes the calls that take a path. Sizes, offsets
 * and pointers range from good to absurd.
 *
 * A call that is denied prints nothing. A line of output reports a call that has changed something
 * (for example `wrote PATH`), a kernel address that a call has returned (`address PATH`), or a file
 * that is not a device and seems to have no end (`endless PATH`). Each line is printed once. The
 * last line of a walk is the number of files and directories.
 */
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>

#include "proctest.h"

enum { kMaxDepth = 8, kMaxEntries = 24, kLongest = 16 << 20 };

#define MADE "made-by-" /* prefix of the names that walkers make; walks leave them out */

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

/* A kernel address has the 17 highest bits set. The highest megabyte is left out, because its
 * addresses look like small negative numbers. */
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

/* If a call has failed, looks for addresses in its error string. Returns the call's result. */
static long told(long result) {
  char why[ABI_ERRSTR_MAX];
  if (result < 0) {
    const long length = STELE_CALL(errstr, why, sizeof why);
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

/* Offsets to try. In a union directory, bits 48 and up of an offset are the member's number. */
static const long places[] = {0,         1,        4095,     1L << 20,       (1L << 31) - 1,
                              1L << 31,  1L << 32, 1L << 48, (3L << 48) + 2, INT64_MAX,
                              INT64_MIN, -1};

static void read_everywhere(int fd, int is_file) {
  static const long sizes[] = {0, 1, 7, 4096, sizeof bytes};
  long all = 0, length;
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
    take(STELE_CALL(read, fd, bytes, sizes[i]));
  while (is_file && (length = take(STELE_CALL(read, fd, bytes, sizeof bytes))) > 0) {
    if ((all += length) > kLongest) {
      say("endless");
      break;
    }
  }
  for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
    take(STELE_CALL(pread, fd, bytes, 4096, places[i]));
    for (int whence = 0; whence <= 3; whence++) {
      told(STELE_CALL(lseek, fd, places[i], whence));
      take(STELE_CALL(read, fd, bytes, 512));
      take(STELE_CALL(getdents, fd, bytes, 16));
      take(STELE_CALL(getdents, fd, bytes, 4096));
    }
  }
  STELE_CALL(lseek, fd, 0, 0);
}

static void write_garbage(int fd) {
  static const char* const texts[] = {
      "\n",         "nonsense\n", "start\nstop\n", "panic",  "leak debug_64 1\n",
      "off now",    "cont",       "kill",          "settle", "reset",
      "failnext 1", "%s%n",       "\xff\1"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
    changes("wrote", STELE_CALL(write, fd, texts[i], strlen(texts[i])));
  memset(bytes, 'x', sizeof bytes);
  changes("wrote", STELE_CALL(write, fd, bytes, 5000));
  for (size_t i = 0; i < sizeof places / sizeof *places; i++)
    changes("wrote", STELE_CALL(pwrite, fd, "start\n", 6, places[i]));
  for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
    if (told(STELE_CALL(lseek, fd, places[i], SEEK_SET)) >= 0)
      changes("wrote", STELE_CALL(write, fd, "start\n", 6));
  }
}

/* Makes calls with sizes beyond all memory and with bad pointers: to the last bytes before a hole,
 * to unmapped addresses, to the kernel. */
static void ask_absurdly(int fd, int may_be_written) {
  static const long sizes[] = {1, 8192, 1L << 31, 1L << 32, INT64_MAX, INT64_MIN, -1};
  static long pointers[] = {0,
                            0,
                            8,
                            1L << 40,
                            0x7ffffffff000,
                            1L << 47,
                            (long)0xffff800000001000,
                            (long)0xffffc00000001000,
                            (long)0xffffffff80200000,
                            -8};
  if (pointers[0] == 0) {
    char* const pages = mmap(NULL, 2 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANON, -1, 0);
    munmap(pages + 4096, 4096);
    pointers[0] = (long)pages + 4096 - 100;
  }
  for (size_t i = 0; i < sizeof pointers / sizeof *pointers; i++) {
    const long pointer = pointers[i];
    for (size_t j = 0; j < sizeof sizes / sizeof *sizes; j++) {
      told(STELE_CALL(lseek, fd, 0, SEEK_SET));
      told(STELE_CALL(read, fd, pointer, sizes[j]));
      told(STELE_CALL(pread, fd, pointer, sizes[j], 0));
      told(STELE_CALL(getdents, fd, pointer, sizes[j]));
      told(STELE_CALL(fd2path, fd, pointer, sizes[j]));
      if (!may_be_written) continue;
      const char* const what = i == 0 ? "wrote" : "wrote from nowhere to";
      changes(what, STELE_CALL(write, fd, pointer, sizes[j]));
      changes(what, STELE_CALL(pwrite, fd, pointer, sizes[j], 0));
    }
    if (i > 0) {
      changes("had a hole filled by", STELE_CALL(fstat, fd, pointer));
      changes("had a hole polled with", poll_ms((struct abi_pollfd*)pointer, 1, 0));
    }
    for (long request = 0; request < 10; request++) told(STELE_CALL(ioctl, fd, request, pointer));
  }
}

static void control(int fd) {
  struct abi_pollfd entry = {.fd = fd, .events = -1};
  told(poll_ms(&entry, 1, 0));
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
      changes("set terminal", STELE_CALL(ioctl, fd, request, &argument));
    else if (told(STELE_CALL(ioctl, fd, request, &argument)) >= 0)
      look(argument.room, sizeof argument.room);
  }
}

static void open_in_every_way(const char* path, int is_file) {
  char own[32];
  snprintf(own, sizeof own, "/%d/ctl", (int)getpid());
  const int is_own = strstr(path, own) ||
                     strstr(path, "/self/ctl"); /* a write to this file may kill this process */
  static const int also[] = {0,
                             O_TRUNC,
                             O_APPEND,
                             O_TRUNC | O_APPEND,
                             ABI_O_DIRECTORY,
                             O_CREAT,
                             O_CREAT | O_EXCL,
                             ABI_O_DIRECTORY | O_CREAT | O_TRUNC};
  enum { kAlso = sizeof also / sizeof *also };
  for (int way = 0; way < 4 * kAlso; way++) {
    const int access = way % 4, flags = access | also[way / 4] | O_NONBLOCK;
    const int fd = (int)told(CALL_AT(open, path, flags, 0600));
    if (fd < 0) continue;
    struct abi_stat stat;
    if (STELE_CALL(fstat, fd, &stat) == 0) look((char*)&stat, sizeof stat);
    if (way < 4) {
      read_everywhere(fd, is_file && way == 0);
      if (!is_own) write_garbage(fd);
      ask_absurdly(fd, !is_own);
    } else {
      take(STELE_CALL(read, fd, bytes, sizeof bytes));
      take(STELE_CALL(getdents, fd, bytes, sizeof bytes));
      if (!is_own) changes("wrote", STELE_CALL(write, fd, "start\n", 6));
    }
    control(fd);
    if (access != O_RDONLY) changes("truncated", STELE_CALL(ftruncate, fd, 0));
    const long copy = told(STELE_CALL(dup, fd));
    STELE_CALL(close, copy);
    STELE_CALL(close, fd);
  }
  changes("opened with every flag", CALL_AT(open, path, -1, 0600));
  changes("opened to execute", CALL_AT(open, path, 1L << 31, 0600));
}

static void name_to_every_call(const char* path) {
  char inside[512], beside[512];
  snprintf(inside, sizeof inside, "%s/" MADE "%d", path, (int)getuid());
  snprintf(beside, sizeof beside, "%s-moved", path);
  const long fd = told(CALL_AT(open, inside, O_RDWR | O_CREAT, 0600));
  if (fd >= 0) {
    say("made a file in");
    STELE_CALL(close, fd);
    CALL_AT(unlink, inside, 0);
  }
  if (told(CALL_AT(mkdir, inside, 0700)) >= 0) {
    say("made a directory in");
    CALL_AT(unlink, inside, ABI_AT_REMOVEDIR);
  }
  changes("changed the mode of", CALL_AT(chmod, path, 0777, 0));
  changes("truncated", STELE_CALL(truncate, path, 0));
  changes("bound", STELE_CALL(bind, "#tmp", path, 0));
  changes("bound", STELE_CALL(bind, path, "/tmp", 0));
  changes("unmounted", STELE_CALL(unmount, path));
  if (told(CALL_AT(rename, path, ABI_AT_FDCWD, beside)) >= 0) {
    say("renamed");
    CALL_AT(rename, beside, ABI_AT_FDCWD, path);
  }
  changes("removed", CALL_AT(unlink, path, ABI_AT_REMOVEDIR));
  changes("removed", CALL_AT(unlink, path, 0));
}

/* True for names of this process's own open files, such as its output. The walk leaves them out. */
static int is_of_fd(const char* directory, const char* name) {
  const char* last = strrchr(directory, '/');
  return strncmp(name, "std", 3) == 0 || strcmp(last != NULL ? last + 1 : directory, "fd") == 0;
}

static void walk(const char* path, int depth) {
  now = path;
  walked++;
  struct abi_stat stat;
  if (told(CALL_AT(stat, path, &stat, 0)) < 0)
    stat.mode = 0;
  else
    look((char*)&stat, sizeof stat);
  told(CALL_AT(access, path, 7, 0));
  open_in_every_way(path, (stat.mode & ABI_S_IFMT) != ABI_S_IFCHR);
  name_to_every_call(path);
  if ((stat.mode & ABI_S_IFMT) != ABI_S_IFDIR || depth == 0) return;
  if (told(STELE_CALL(chdir, path)) == 0) chdir("/");
  DIR* const directory = opendir(path);
  if (!directory) return;
  const struct dirent* entry;
  for (int n = 0; n < kMaxEntries && (entry = readdir(directory));) {
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
        strncmp(entry->d_name, MADE, strlen(MADE)) == 0 || is_of_fd(path, entry->d_name))
      continue;
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
    const int status = status_of(child);
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

/* Starts processes that end soon, again and again, while the walkers look at them. */
static void come_and_go(uid_t uid) {
  char* const arguments[] = {(char*)program, "helper", "exit", NULL};
  if (setsid() < 0 || setgid(uid) != 0 || setuid(uid) != 0) _exit(1);
  for (unsigned i = 0;; i++) {
    const pid_t child = fork();
    if (child == 0) {
      if (i % 3 == 0) execve(program, arguments, NULL);
      if (i % 3 == 1)
        STELE_CALL(read, CALL_AT(open, "/proc/self/status", O_RDONLY, 0), bytes, sizeof bytes);
      _exit(0);
    }
    if (child > 0) status_of(child);
  }
}

int crowd_as(uid_t uid, int users, int count, char** paths) {
  enum { kMaxUsers = 16 };
  pid_t walkers[kMaxUsers];
  if (users < 1 || users > kMaxUsers) return 2;
  for (int i = 0; i < users; i++) {
    walkers[i] = fork();
    if (walkers[i] == 0) exit(walk_as(uid + (uid_t)i, count, paths));
  }
  const pid_t crowd = fork();
  if (crowd == 0) come_and_go(uid + (uid_t)users);
  int failed = crowd < 0;
  for (int i = 0; i < users; i++) failed |= walkers[i] < 0 || status_of(walkers[i]) != 0;
  if (crowd > 0) {
    kill(crowd, SIGKILL);
    const int status = status_of(crowd);
    failed |= !WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL;
  }
  return failed;
}
