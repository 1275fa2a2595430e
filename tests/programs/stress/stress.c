/* stress SECONDS [SEED [WORKERS [ACTIVITY…]]]: does everything at once, at random, and checks for
 * leaks.
 *
 * Workers do one activity after another: trees of processes, programs, threads, signals, memory,
 * pipes, files, folders, binds, devices, probes, traces, dumps, checking of objects, allocations
 * that fail. The workers check the results. A new worker replaces each worker that has ended.
 *
 * Now and then the program kills or stops the process group of a worker with an odd number. It
 * leaves the other workers, the steady ones, alone. When the time is over, each steady worker must
 * finish its activity; otherwise it hangs, and the report says what it does.
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
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <stele.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tool/touch_pages.h"

enum {
  WORKERS_MAX = 64,
  KNOWN_MAX = 64,
  NESTED_MAX = 3,
  REST_SECONDS = 60,  /* time for killed processes to end, and for caches to settle */
  HANG_SECONDS = 120, /* a steady worker that does not finish within this time hangs */
};

void reseed(void) {
  random_seed(random_any() ^ (uint64_t)getpid() << 32);
}

/* ---- The activities. */

static const struct {
  const char* name;
  void (*run)(void);
  unsigned weight;
} activities[] = {
#define ENTRY_OF_PROCESS(name) {#name, name, 1},
#define ENTRY_OF_THREAD(name, weight) {#name, name, weight},
    PROCESS_ACTIVITIES(ENTRY_OF_PROCESS) THREAD_ACTIVITIES(ENTRY_OF_THREAD)
#undef ENTRY_OF_PROCESS
#undef ENTRY_OF_THREAD
};
enum {
#define ONE(name) +1
  PROCESS_COUNT = 0 PROCESS_ACTIVITIES(ONE), /* activities[] begins with those of processes */
#undef ONE
  ACTIVITY_COUNT = sizeof activities / sizeof *activities,
};

static bool chosen[ACTIVITY_COUNT];

/* Chooses the activities `first` to `end` - 1, or those of them with the name `name`. Returns
 * whether there is one. */
static bool choose(unsigned first, unsigned end, const char* name) {
  bool found = false;
  for (unsigned i = first; i < end; i++) {
    if (name && strcmp(activities[i].name, name) != 0) continue;
    chosen[i] = found = true;
  }
  return found;
}

static bool is_any_chosen(unsigned first, unsigned end) {
  return memchr(chosen + first, true, end - first) != NULL;
}

/* Chooses the named activities. Without names of one kind, all of this kind are chosen. Activities
 * of threads alone mean threads(). Returns false if an activity does not exist. */
static bool choose_all(char** names, int count) {
  for (int i = 0; i < count; i++)
    if (!choose(0, ACTIVITY_COUNT, names[i])) return false;
  const bool is_thread = is_any_chosen(PROCESS_COUNT, ACTIVITY_COUNT);
  if (!is_any_chosen(0, PROCESS_COUNT)) choose(0, PROCESS_COUNT, is_thread ? "threads" : NULL);
  if (!is_thread) choose(PROCESS_COUNT, ACTIVITY_COUNT, NULL);
  return true;
}

/* Memory that all processes of the program share. */
static struct {
  atomic_ulong done[ACTIVITY_COUNT], failed;
  atomic_bool is_over; /* the steady workers shall end */
  unsigned char doing[WORKERS_MAX][1 + THREADS_MAX];
} * shared;

_Thread_local unsigned char* doing;

static void run_one(unsigned first, unsigned end) {
  unsigned sum = 0, which = first;
  for (unsigned i = first; i < end; i++) sum += chosen[i] ? activities[i].weight : 0;
  for (unsigned n = (unsigned)random_below(sum);; which++) {
    if (!chosen[which]) continue;
    if (n < activities[which].weight) break;
    n -= activities[which].weight;
  }
  const unsigned char outer = *doing;
  *doing = (unsigned char)(which + 1);
  atomic_fetch_add(&shared->done[which], 1);
  activities[which].run();
  *doing = outer;
}

void act(void) {
  static unsigned nested; /* depth of calls: an activity may call act(), too */
  if (nested == NESTED_MAX) return;
  nested++;
  run_one(0, PROCESS_COUNT);
  nested--;
}

void act_in_thread(void) {
  run_one(PROCESS_COUNT, ACTIVITY_COUNT);
}

/* ---- Functions that the activities use. */

void failed(const char* pattern, ...) {
  char line[200];
  va_list arguments;
  va_start(arguments, pattern);
  vsnprintf(line, sizeof line, pattern, arguments);
  va_end(arguments);
  char whole[256];
  int length = snprintf(whole, sizeof whole, "stress: pid %d: %s\n", getpid(), line);
  write(STDERR_FILENO, whole, (size_t)length);
  atomic_fetch_add(&shared->failed, 1);
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

/* ---- Workers. */

static pid_t workers[WORKERS_MAX];
static unsigned worker_count;
static unsigned long kills;

static bool is_steady(unsigned worker) {
  return worker % 2 == 0;
}

static void start_worker(unsigned i) {
  memset(shared->doing[i], 0, sizeof shared->doing[i]);
  workers[i] = fork();
  if (workers[i] != 0) {
    random_any();
    return;
  }
  setpgid(0, 0);
  reseed();
  signal(SIGPIPE, SIG_IGN);
  doing = shared->doing[i];
  while (!is_steady(i) || !atomic_load(&shared->is_over)) act();
  _exit(0);
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

static void work(double seconds) {
  for (double end = now() + seconds; now() < end;) {
    reap();
    for (unsigned i = 0; i < worker_count; i++)
      if (workers[i] <= 0) start_worker(i);
    pause_us(1000 * (unsigned)(20 + random_below(200)));
    unsigned which = (unsigned)random_below(worker_count);
    pid_t victim = workers[which];
    if (victim <= 0 || is_steady(which) || random_one_in(3)) continue;
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

/* Waits for the steady workers. Reports those that hang; false if there are any. */
static bool finish_workers(void) {
  atomic_store(&shared->is_over, true);
  bool waits = true;
  for (double end = now() + HANG_SECONDS; waits && now() < end; pause_us(10000)) {
    reap();
    waits = false;
    for (unsigned i = 0; i < worker_count; i++) {
      if (workers[i] <= 0) continue;
      if (is_steady(i))
        waits = true;
      else
        kill(-workers[i], SIGKILL);
    }
  }
  for (unsigned i = 0; waits && i < worker_count; i++) {
    if (workers[i] <= 0 || !is_steady(i)) continue;
    fprintf(stderr, "stress: worker %u, pid %d, hangs:", i, (int)workers[i]);
    for (unsigned thread = 0; thread <= THREADS_MAX; thread++) {
      const unsigned char which = shared->doing[i][thread];
      if (which != 0) fprintf(stderr, " %s", activities[which - 1].name);
    }
    fprintf(stderr, "\n");
  }
  return !waits;
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

/* Prints how often each activity was done. */
static void report(void) {
  unsigned long all = 0;
  for (unsigned i = 0; i < ACTIVITY_COUNT; i++) {
    const unsigned long done = atomic_load(&shared->done[i]);
    printf("%s %lu%s", activities[i].name, done, i % 7 == 6 ? "\n" : "  ");
    all += done;
  }
  printf("kills %lu\n%lu activities, %lu failed\n", kills, all, atomic_load(&shared->failed));
}

int main(int count, char** arguments) {
  double seconds = count > 1 ? atof(arguments[1]) : 0;
  if (!(seconds > 0) || !choose_all(arguments + 4, count - 4)) {
    fprintf(stderr, "usage: stress SECONDS [SEED [WORKERS [ACTIVITY...]]]\n");
    return 2;
  }
  random_seed(count > 2 ? strtoull(arguments[2], NULL, 10) : 1);
  worker_count = count > 3 ? (unsigned)atoi(arguments[3]) : 8;
  if (worker_count < 1 || worker_count > WORKERS_MAX) worker_count = 8;
  signal(SIGPIPE, SIG_IGN);
  trace_limit = read_limit();
  if (trace_limit == 0) return cannot_say("no tracer");
  shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED || others(true) < 0) return cannot_say("no memory");
  memset(shared, 0, sizeof *shared);
  touch_pages();
  if (!make_account()) return cannot_say("no account for a user");

  make_folders();
  work(seconds / 5 < 5 ? seconds / 5 : 5);
  if (!comes_to_rest()) return 1;
  if (!take_counts(0)) return cannot_say("no memory to count");
  make_folders();
  work(seconds);
  bool finished = finish_workers();
  bool at_rest = comes_to_rest();
  bool counted = at_rest && take_counts(1);
  report();
  if (!finished || !at_rest) return 1;
  const bool good = atomic_load(&shared->failed) == 0;
  if (!counted) return good ? cannot_say("no memory to count") : 1;
  return compare_counts() == 0 && good ? 0 : 1;
}
