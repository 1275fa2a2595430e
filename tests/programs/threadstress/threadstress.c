/* threadstress SECONDS [SEED [THREADS]]: does everything that threads can do, at once and at
 * random, and checks for leaks.
 *
 * The program runs one episode after another, each in a child process. In an episode, THREADS
 * threads (64 by default) lock, wait, signal and fork, and make and cancel more threads. The first
 * thread cancels some of the threads and replaces each thread that has ended.
 *
 * The end of an episode is chosen at random. In an orderly end, all threads finish their functions,
 * and the program then checks the counts of the shared data. After these checks the first thread
 * may start new threads and end before them, so that the process ends with its last thread. In any
 * other end, the process ends while the threads work: a thread calls exit or exec or causes a
 * fault, or the parent kills the process.
 *
 * At the end no kernel cache may have more live objects than after the first episodes. The caches
 * of the allocator itself and of the page cache are not compared.
 *
 * Status: 0 no error found; 1 an error, printed on standard error; 2 wrong use. An error in an
 * episode is printed with the episode's seed.
 */
#include "threadstress.h"

#include <fcntl.h>
#include <sys/mman.h>

enum {
  WARM_UP = 3,        /* episodes before the first count */
  HANG_SECONDS = 120, /* an episode that overruns its time by more than this counts as hung */
  REST_SECONDS = 30,  /* time for killed processes to end */
};

static int wanted_threads = 64;
static uint64_t episode_seed;

_Noreturn void wrong(const char* what, const char* file, int line) {
  char text[256];
  const int length =
      snprintf(text, sizeof text, "threadstress: %s:%d: not so: %s (errno %d, pid %d, seed %lu)\n",
               file, line, what, errno, (int)getpid(), (unsigned long)episode_seed);
  write(STDERR_FILENO, text, (size_t)length);
  _exit(1);
}

struct timespec in_us(clockid_t clock, long us) {
  struct timespec time;
  clock_gettime(clock, &time);
  time.tv_nsec += us % 1000000 * 1000;
  time.tv_sec += us / 1000000 + time.tv_nsec / 1000000000;
  time.tv_nsec %= 1000000000;
  return time;
}

/* ---- Threads. */

atomic_long threads_made, threads_ended;
_Thread_local const char** now_doing;

struct beginning {
  void* (*function)(void*);
  void* argument;
  uint64_t seed;
  const char** doing;
};

static void count_end(void* argument) {
  (void)argument;
  atomic_fetch_add(&threads_ended, 1);
}
static void* run(void* argument) {
  const struct beginning beginning = *(struct beginning*)argument;
  void* result;
  free(argument);
  random_seed(beginning.seed);
  now_doing = beginning.doing;
  pthread_cleanup_push(count_end, NULL);
  result = beginning.function(beginning.argument);
  pthread_cleanup_pop(1);
  return result;
}

static pthread_t begin_thread(void* (*function)(void*), void* argument, const char** doing) {
  struct beginning* beginning = malloc(sizeof *beginning);
  pthread_attr_t attributes;
  pthread_t thread;
  MUST(beginning != NULL);
  *beginning = (struct beginning){function, argument, random_any(), doing};
  pthread_attr_init(&attributes);
  /* Stacks have several sizes, so that a new thread cannot always reuse the stack of an old one. */
  if (random_one_in(4)) pthread_attr_setstacksize(&attributes, 65536 << random_below(3));
  atomic_fetch_add(&threads_made, 1);
  int error;
  while ((error = pthread_create(&thread, &attributes, run, beginning)) == EAGAIN) sched_yield();
  errno = error;
  MUST(error == 0);
  pthread_attr_destroy(&attributes);
  return thread;
}
pthread_t begin(void* (*function)(void*), void* argument) {
  return begin_thread(function, argument, now_doing);
}
void* join(pthread_t thread) {
  void* result;
  const int error = pthread_join(thread, &result);
  errno = error;
  MUST(error == 0);
  return result;
}

/* ---- An episode. */

enum end { IN_ORDER, BY_EXIT, BY_EXEC, BY_FAULT, BY_PARENT, BY_LEAVING, ENDS };
static const char* const end_names[] = {"in order", "exit",   "exec",
                                        "fault",    "killed", "the first one leaves"};
enum { EXIT_STATUS = 77 };

static enum end end_of_episode;
static atomic_bool stop;
static struct worker {
  pthread_t thread;
  atomic_bool ended;
} workers[THREADS_MAX];

/* The name of each worker's current activity; NULL: none. The entry at THREADS_MAX is for the first
 * thread. The parent shares this memory, to report what hangs. */
static const char** doing;

static void set_ended(void* worker) {
  atomic_store(&((struct worker*)worker)->ended, true);
}
static _Thread_local uint64_t signature[8];

static void* work(void* argument) {
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
  pthread_cleanup_push(set_ended, argument);
  for (int i = 0; i < 8; i++) {
    MUST(signature[i] == 0);
    signature[i] = (uintptr_t)argument + (unsigned)i;
  }
  const uint64_t life = 5 + random_below(200);
  for (uint64_t i = 0; i < life && !atomic_load(&stop); i++) {
    do_something();
    for (int s = 0; s < 8; s++) MUST(signature[s] == (uintptr_t)argument + (unsigned)s);
  }
  if (random_one_in(2)) pthread_exit((void*)1);
  pthread_cleanup_pop(1);
  return (void*)1;
}

/* A thread that ends the process, for BY_EXIT, BY_EXEC and BY_FAULT. */
static void* end_the_process(void* argument) {
  if (end_of_episode == BY_EXIT) exit(EXIT_STATUS);
  if (end_of_episode == BY_EXEC) {
    /* A pending signal survives exec, but the handler of the signal does not. Without this call,
     * the signal would therefore end the shell. */
    signal(SIGUSR1, SIG_IGN);
    execl("/bin/sh", "sh", "-c", "exit 77", NULL);
  } else if (end_of_episode == BY_FAULT) {
    *(volatile int*)argument = 1;
  }
  wrong("still there", __FILE__, __LINE__);
}

static void* only_the_last_ends(void* argument) {
  struct timespec time = {.tv_nsec = (long)random_below(2000000)};
  nanosleep(&time, NULL);
  return argument;
}

static _Noreturn void run_episode(uint64_t seed, long us) {
  random_seed(seed);
  prepare_activities();
  const struct timespec end = in_us(CLOCK_MONOTONIC, us);
  for (int i = 0; i < wanted_threads; i++)
    workers[i].thread = begin_thread(work, &workers[i], &doing[i]);
  for (;;) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (now.tv_sec > end.tv_sec || (now.tv_sec == end.tv_sec && now.tv_nsec >= end.tv_nsec)) break;
    for (int i = 0; i < wanted_threads; i++) {
      struct worker* worker = &workers[i];
      if (random_one_in(8)) MUST(pthread_cancel(worker->thread) == 0);
      if (!atomic_load(&worker->ended) && !random_one_in(16)) continue;
      if (random_one_in(3)) {
        /* A detached thread's slot can be reused only after the thread has set `ended`. */
        if (!atomic_load(&worker->ended)) continue;
        MUST(pthread_detach(worker->thread) == 0);
      } else {
        MUST(pthread_cancel(worker->thread) == 0);
        void* result = join(worker->thread);
        MUST(result == (void*)1 || result == PTHREAD_CANCELED);
        MUST(atomic_load(&worker->ended));
      }
      atomic_store(&worker->ended, false);
      worker->thread = begin_thread(work, worker, &doing[i]);
    }
    do_something();
  }
  switch (end_of_episode) {
    case BY_EXIT:
    case BY_EXEC:
    case BY_FAULT:
      begin(end_the_process, (void*)8);
      for (;;) do_something();
    case BY_PARENT:
      for (;;) do_something();
    default:
      break;
  }
  atomic_store(&stop, true);
  for (int i = 0; i < wanted_threads; i++) join(workers[i].thread);
  check_activities();
  if (end_of_episode == BY_LEAVING) {
    for (int i = 0; i < wanted_threads; i++) pthread_detach(begin(only_the_last_ends, NULL));
    pthread_exit(NULL);
  }
  exit(0);
}

/* ---- The parent. */

static void report_hang(pid_t child) {
  fprintf(stderr, "threadstress: pid %d hangs, end %s, seed %lu\n", (int)child,
          end_names[end_of_episode], (unsigned long)episode_seed);
  if (doing[THREADS_MAX] != NULL) fprintf(stderr, "  first thread: %s\n", doing[THREADS_MAX]);
  for (int i = 0; i < wanted_threads; i++) {
    if (doing[i] != NULL) fprintf(stderr, "  %d: %s\n", i, doing[i]);
  }
}

static void expect_end(pid_t child, long us) {
  sigset_t child_signal;
  sigemptyset(&child_signal);
  sigaddset(&child_signal, SIGCHLD);
  const struct timespec limit = in_us(CLOCK_MONOTONIC, us + HANG_SECONDS * 1000000L);
  struct timespec length = {.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000};
  if (end_of_episode == BY_PARENT) {
    length.tv_nsec = length.tv_nsec / 4 * 3;
    nanosleep(&length, NULL);
    kill(child, SIGKILL);
  }
  int status;
  for (;;) {
    const pid_t ended = waitpid(child, &status, WNOHANG);
    if (ended == child) break;
    MUST(ended == 0);
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (now.tv_sec > limit.tv_sec) {
      report_hang(child);
      kill(child, SIGKILL);
      exit(1);
    }
    const struct timespec second = {.tv_sec = 1};
    sigtimedwait(&child_signal, NULL, &second);
  }
  const bool right =
      end_of_episode == BY_FAULT ? WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV
      : end_of_episode == BY_PARENT
          ? WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL
          : WIFEXITED(status) &&
                WEXITSTATUS(status) ==
                    (end_of_episode == BY_EXIT || end_of_episode == BY_EXEC ? EXIT_STATUS : 0);
  if (right) return;
  fprintf(stderr, "threadstress: pid %d, end %s, seed %lu: status 0x%x\n", (int)child,
          end_names[end_of_episode], (unsigned long)episode_seed, (unsigned)status);
  exit(1);
}

static void one_episode(bool in_order, long us_at_most) {
  const long us = 100000 + (long)random_below((uint64_t)us_at_most);
  episode_seed = random_any();
  end_of_episode = in_order ? IN_ORDER : (enum end)random_below(ENDS);
  memset(doing, 0, (THREADS_MAX + 1) * sizeof *doing);
  fflush(NULL);
  const pid_t child = fork();
  MUST(child >= 0);
  if (child == 0) run_episode(episode_seed, us);
  expect_end(child, us);
}

/* The live objects of one cache. read_counts() leaves out the caches of the allocator itself and of
 * the page cache. */
struct count {
  char name[40];
  long live;
};
enum { COUNTS_MAX = 200 };
static int read_counts(struct count* counts) {
  FILE* file = fopen("#mem/kmemstat", "r");
  char line[256], type;
  int count = 0;
  if (file == NULL) return 0;
  while (fgets(line, sizeof line, file) != NULL && count < COUNTS_MAX) {
    struct count* at = &counts[count];
    if (sscanf(line, "%39s %c %*s %*s %*s %ld", at->name, &type, &at->live) == 3 && type == 'S' &&
        strncmp(at->name, "kmem_", 5) != 0 && strncmp(at->name, "page_", 5) != 0 &&
        strncmp(at->name, "cached_", 7) != 0)
      count++;
  }
  fclose(file);
  return count;
}

static int compare_counts(const struct count* before, int count) {
  struct count now[COUNTS_MAX];
  for (int tries = 0;; tries++) {
    const int many = read_counts(now);
    int more = 0;
    for (int i = 0; i < many; i++) {
      for (int b = 0; b < count; b++) {
        if (strcmp(now[i].name, before[b].name) != 0 || now[i].live <= before[b].live) continue;
        more++;
        if (tries == REST_SECONDS * 10)
          fprintf(stderr, "threadstress: %ld live objects of %s, %ld at first\n", now[i].live,
                  now[i].name, before[b].live);
      }
    }
    if (more == 0 || tries == REST_SECONDS * 10) return more;
    const struct timespec moment = {.tv_nsec = 100000000};
    nanosleep(&moment, NULL);
  }
}

int main(int argc, char** argv) {
  const long seconds = argc > 1 ? strtol(argv[1], NULL, 10) : 0;
  const uint64_t seed = argc > 2 ? strtoul(argv[2], NULL, 10) : (uint64_t)time(NULL);
  if (argc > 3) wanted_threads = (int)strtol(argv[3], NULL, 10);
  if (seconds < 1 || argc > 4 || wanted_threads < 1 || wanted_threads > THREADS_MAX) {
    fprintf(stderr, "usage: threadstress SECONDS [SEED [THREADS]]\n");
    return 2;
  }
  doing = mmap(NULL, (THREADS_MAX + 1) * sizeof *doing, PROT_READ | PROT_WRITE,
               MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (doing == MAP_FAILED) doing = calloc(THREADS_MAX + 1, sizeof *doing);
  now_doing = &doing[THREADS_MAX];
  sigset_t child_signal;
  sigemptyset(&child_signal);
  sigaddset(&child_signal, SIGCHLD);
  sigprocmask(SIG_BLOCK, &child_signal, NULL);
  random_seed(seed);
  printf("threadstress: %ld s, seed %lu, %d threads\n", seconds, (unsigned long)seed,
         wanted_threads);
  const struct timespec end = in_us(CLOCK_MONOTONIC, seconds * 1000000);
  system("exit 0"); /* fills the page cache with the shell */
  static struct count before[COUNTS_MAX];
  int count = 0, episodes = 0;
  for (;; episodes++) {
    if (episodes == WARM_UP) count = read_counts(before);
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (episodes > WARM_UP && now.tv_sec >= end.tv_sec) break;
    one_episode(episodes == 0, seconds < 10 ? 300000 : 3000000);
  }
  one_episode(true, 300000);
  printf("threadstress: %d episodes\n", episodes + 1);
  return compare_counts(before, count) != 0;
}
