/* stress SECONDS [SEED [WORKERS [ACTIVITY…]]]: does everything at once, at random, and checks for
 * leaks.
 *
 * Workers do one activity after another: trees of processes, programs, threads, signals, memory,
 * pipes, files, folders, binds, devices, probes, traces, dumps, checking of objects, allocations
 * that fail.
 * The workers check the results. Now and then the program kills or stops a worker's process
 * group. A new worker replaces each worker that has ended.
 *
 * First the workers run for a short time, so that one-time allocations happen. The program then
 * brings the system to rest: it kills all processes, removes files, undoes binds, resets traces and
 * lets caches settle. At rest it counts the live objects of each cache and arena. After the main
 * run it brings the system to rest again and counts again. The two counts must be equal. Each time,
 * before it resets the traces, the program also checks a dump (check_dump in stress.h).
 *
 * Memory may run out. Calls then fail and the kernel kills processes, which is expected. This
 * process itself holds little memory, so that the kernel does not choose it as the victim.
 *
 * Status: 0 no error found; 1 an error, printed on standard error; 2 the check was not possible.
 * Only for root, and for an otherwise idle system, because the program kills every process that did
 * not exist at its start.
 */
#include "stress.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <stele.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tool/touch_pages.h"

enum {
  WORKERS_MAX = 64,
  KNOWN_MAX = 64,
  NESTED_MAX = 3,
  REST_SECONDS = 60, /* time for killed processes to end, and for caches to settle */
  FAILED = 255,      /* a worker reports this instead of an activity */
};

void reseed(void) {
  random_seed(random_any() ^ (uint64_t)getpid() << 32);
}

/* ---- Functions that the activities use. */

static int told = -1; /* a pipe, to which workers write a byte for each activity */

void failed(const char* pattern, ...) {
  char line[200];
  va_list arguments;
  va_start(arguments, pattern);
  vsnprintf(line, sizeof line, pattern, arguments);
  va_end(arguments);
  char whole[256];
  int length = snprintf(whole, sizeof whole, "stress: pid %d: %s\n", getpid(), line);
  write(STDERR_FILENO, whole, (size_t)length);
  unsigned char byte = FAILED;
  fcntl(told, F_SETFL, 0); /* makes writes wait, so that this byte is not lost */
  write(told, &byte, 1);
}

void pause_us(unsigned us) {
  struct timespec time = {us / 1000000, us % 1000000 * 1000};
  nanosleep(&time, NULL);
}

pid_t spawn(void) {
  pid_t child = fork();
  if (child == 0) reseed();
  return child;
}

void finish(pid_t child) {
  if (child <= 0) return;
  if (random_one_in(4)) {
    pause_us(random_below(5000));
    kill(child, SIGKILL);
  }
  while (waitpid(child, NULL, 0) < 0 && errno == EINTR) {
  }
}

void say(const char* path, const char* pattern, ...) {
  char text[512];
  va_list arguments;
  va_start(arguments, pattern);
  int length = vsnprintf(text, sizeof text, pattern, arguments);
  va_end(arguments);
  int fd = open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return;
  write(fd, text, (size_t)length < sizeof text ? (size_t)length : sizeof text - 1);
  close(fd);
}

bool any_entry(const char* directory, char* name, size_t size) {
  DIR* folder = opendir(directory);
  if (!folder) return false;
  unsigned seen = 0;
  for (struct dirent* entry; (entry = readdir(folder));) {
    if (entry->d_name[0] == '.' || !random_one_in(++seen)) continue;
    snprintf(name, size, "%s", entry->d_name);
  }
  closedir(folder);
  return seen > 0;
}

static const struct {
  const char* name;
  void (*run)(void);
} activities[] = {
#define ENTRY(name) {#name, name},
    ACTIVITIES(ENTRY)
#undef ENTRY
};
enum { ACTIVITY_COUNT = sizeof activities / sizeof *activities };

static unsigned char chosen[ACTIVITY_COUNT]; /* indices in activities[] of the activities to do */
static unsigned chosen_count;

static bool choose(const char* name) {
  for (unsigned i = 0; i < ACTIVITY_COUNT; i++) {
    if (name && strcmp(activities[i].name, name) != 0) continue;
    if (chosen_count < ACTIVITY_COUNT) chosen[chosen_count++] = (unsigned char)i;
    if (name) return true;
  }
  return !name;
}

void act(void) {
  static unsigned nested; /* depth of calls: an activity may call act(), too */
  if (nested == NESTED_MAX) return;
  nested++;
  unsigned char which = chosen[random_below(chosen_count)];
  write(told, &which, 1);
  activities[which].run();
  nested--;
}

/* ---- Workers. */

static pid_t workers[WORKERS_MAX];
static unsigned worker_count;
static unsigned long done[ACTIVITY_COUNT], kills, wrong;

static void start_worker(unsigned i) {
  workers[i] = fork();
  if (workers[i] != 0) {
    random_any();
    return;
  }
  setpgid(0, 0);
  reseed();
  signal(SIGPIPE, SIG_IGN);
  for (;;) act();
}

static void listen(int from) {
  unsigned char bytes[512];
  for (ssize_t n; (n = read(from, bytes, sizeof bytes)) > 0;)
    for (ssize_t i = 0; i < n; i++) {
      if (bytes[i] == FAILED) wrong++;
      if (bytes[i] < ACTIVITY_COUNT) done[bytes[i]]++;
    }
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void reap(void) {
  for (pid_t ended; (ended = waitpid(-1, NULL, WNOHANG)) > 0;)
    for (unsigned i = 0; i < worker_count; i++)
      if (workers[i] == ended) workers[i] = 0;
}

static void work(double seconds, int from) {
  for (double end = now() + seconds; now() < end;) {
    reap();
    for (unsigned i = 0; i < worker_count; i++)
      if (workers[i] <= 0) start_worker(i);
    pause_us(1000 * (unsigned)(20 + random_below(200)));
    listen(from);
    pid_t victim = workers[random_below(worker_count)];
    if (victim <= 0 || random_one_in(3)) continue;
    static const int signals[] = {SIGKILL, SIGKILL, SIGTERM, SIGSTOP, SIGINT, SIGHUP};
    int number = signals[random_below(sizeof signals / sizeof *signals)];
    kill(-victim, number);
    if (number == SIGSTOP) {
      pause_us(random_below(50000));
      kill(-victim, random_one_in(2) ? SIGCONT : SIGKILL);
    }
    kills++;
  }
}

/* ---- Rest. */

static pid_t known[KNOWN_MAX];
static unsigned known_count;
static unsigned long trace_limit;

static bool is_known(pid_t pid) {
  for (unsigned i = 0; i < known_count; i++)
    if (known[i] == pid) return true;
  return false;
}

/* Finds all processes that are not in known[], and kills them, or adds them to known[] if `note` is
 * true. Returns the number of found processes, zombies included; -1 if there is not enough memory.
 */
static int others(bool note) {
  DIR* folder = opendir("/proc");
  if (!folder) return -1;
  int count = 0;
  for (struct dirent* entry; (entry = readdir(folder));) {
    pid_t pid = (pid_t)atoi(entry->d_name);
    if (pid <= 0 || is_known(pid)) continue;
    if (note && known_count < KNOWN_MAX) known[known_count++] = pid;
    if (!note) kill(pid, SIGKILL);
    count++;
  }
  closedir(folder);
  return count;
}

static void remove_all(const char* path) {
  DIR* folder = opendir(path);
  if (folder) {
    for (struct dirent* entry; (entry = readdir(folder));) {
      if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")) continue;
      char name[1024];
      if (snprintf(name, sizeof name, "%s/%s", path, entry->d_name) < (int)sizeof name &&
          unlink(name) != 0)
        remove_all(name);
    }
    closedir(folder);
  }
  rmdir(path);
}

/* Removes the files that binds() made in /tmp in place of FOLDER, in processes that were killed. */
static void remove_made(void) {
  DIR* folder = opendir("/tmp");
  if (!folder) return;
  for (struct dirent* entry; (entry = readdir(folder));) {
    char name[300];
    if (strncmp(entry->d_name, "made.", 5) != 0) continue;
    snprintf(name, sizeof name, "/tmp/%s", entry->d_name);
    unlink(name);
  }
  closedir(folder);
}

static bool command(const char* word) {
  int fd = open(CTL, O_WRONLY | O_CLOEXEC);
  bool good = fd >= 0 && write(fd, word, strlen(word)) >= 0;
  if (fd >= 0) close(fd);
  return good;
}

static const char* step; /* what try_rest() waited for last, for the error message */

static bool try_rest(bool dump) {
  char text[64];
  step = "processes end";
  if (others(false) != 0) return false;
  step = "files go";
  for (unsigned i = 0; i < MOUNTS; i++) {
    snprintf(text, sizeof text, FOLDER "/m%u", i);
    while (ns_unmount(text) == 0) {
    }
  }
  remove_all(FOLDER);
  if (access(FOLDER, F_OK) == 0) return false;
  remove_made();
  step = "traces stop";
  if (!command("nocheck") || !command("stop")) return false;
  step = "the dump opens";
  if (dump && !check_dump("#mem/tracedump", false)) return false;
  step = "traces end";
  snprintf(text, sizeof text, "limit %lu", trace_limit);
  if (!command("reset") || !command(text)) return false;
  step = "caches settle";
  return command("reap") && command("settle");
}

/* Brings the system to rest. False if that takes too long. */
static bool rest(bool dump) {
  for (double end = now() + REST_SECONDS; now() < end; pause_us(50000)) {
    reap();
    if (try_rest(dump)) return true;
  }
  return false;
}

static void make_folders(void) {
  mkdir(FOLDER, 01777);
  chmod(FOLDER, 01777);
  for (unsigned i = 0; i < MOUNTS; i++) {
    char name[64];
    snprintf(name, sizeof name, FOLDER "/m%u", i);
    mkdir(name, 0777);
  }
}

static unsigned long read_limit(void) {
  char text[128] = "";
  int fd = open(CTL, O_RDONLY);
  if (fd >= 0) read(fd, text, sizeof text - 1), close(fd);
  return strncmp(text, "limit ", 6) == 0 ? strtoul(text + 6, NULL, 10) : 0;
}

static int cannot_say(const char* why) {
  fprintf(stderr, "stress: cannot check: %s (%s)\n", why, strerror(errno));
  return 2;
}

/* Touches all pages that this process will use until the second count. If the process first touched
 * a page between the counts, the kernel might create page tables, and the counts would differ. For
 * the same reason the process prints nothing until the second count. */
static void touch_pages(void) {
  enum { STACK = 64 << 10, HEAP = 100 << 10 /* free() returns larger blocks to the kernel */ };
  static char output[BUFSIZ];
  touch_all_pages();
  char stack[STACK];
  memset(stack, 1, sizeof stack);
  __asm__ volatile("" ::"r"(stack) : "memory");
  setvbuf(stdout, output, _IOFBF, sizeof output);
  char* heap = malloc(HEAP);
  if (heap) memset(heap, 1, HEAP);
  free(heap);
}

/* Becomes the user of user() for a moment. The kernel makes an account for a user who was not there
 * before, and keeps it for later users. False if this fails. */
static bool make_account(void) {
  pid_t child = fork();
  if (child == 0) _exit(become_user() ? 0 : 1);
  int status = 1;
  return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

/* Brings the system to rest. If that takes too long, prints an error and returns false. */
static bool comes_to_rest(void) {
  if (rest(true)) return true;
  fprintf(stderr, "stress: no rest within %d s: waited until %s (%s)\n", REST_SECONDS, step,
          strerror(errno));
  return false;
}

int main(int count, char** arguments) {
  double seconds = count > 1 ? atof(arguments[1]) : 0;
  bool good = seconds > 0;
  for (int i = 4; i < count; i++) good = choose(arguments[i]) && good;
  if (!good) {
    fprintf(stderr, "usage: stress SECONDS [SEED [WORKERS [ACTIVITY...]]]\n");
    return 2;
  }
  if (chosen_count == 0) choose(NULL);
  random_seed(count > 2 ? strtoull(arguments[2], NULL, 10) : 1);
  worker_count = count > 3 ? (unsigned)atoi(arguments[3]) : 8;
  if (worker_count < 1 || worker_count > WORKERS_MAX) worker_count = 8;
  signal(SIGPIPE, SIG_IGN);
  int ends[2];
  trace_limit = read_limit();
  if (trace_limit == 0) return cannot_say("no tracer");
  if (others(true) < 0 || pipe2(ends, O_NONBLOCK | O_CLOEXEC) != 0) return cannot_say("no memory");
  told = ends[1];
  touch_pages();
  if (!make_account()) return cannot_say("no account for a user");

  make_folders();
  work(seconds / 5 < 5 ? seconds / 5 : 5, ends[0]);
  if (!comes_to_rest()) return 1;
  if (!take_counts(0)) return cannot_say("no memory to count");
  make_folders();
  work(seconds, ends[0]);
  bool at_rest = comes_to_rest();
  listen(ends[0]);
  bool counted = at_rest && take_counts(1);
  unsigned long all = 0;
  for (unsigned i = 0; i < ACTIVITY_COUNT; i++) {
    printf("%s %lu%s", activities[i].name, done[i], i % 7 == 6 ? "\n" : "  ");
    all += done[i];
  }
  printf("kills %lu\n%lu activities, %lu failed\n", kills, all, wrong);
  if (!at_rest) return 1;
  if (!counted) return wrong ? 1 : cannot_say("no memory to count");
  unsigned differences = compare_counts();
  return wrong || differences ? 1 : 0;
}
