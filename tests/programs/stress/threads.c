/* A process with threads: some work, some wait until the process's end. The process ends in one of
 * several ways, chosen at random, usually while threads work. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "stress.h"

enum { MOST = 8, ROUNDS = 40 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
static unsigned long guarded; /* how often add() was called; guarded by mutex */
static int quiet[2];          /* a pipe that is never written to: its readers wait forever */

/* The state of one working thread: its random numbers, and how often it has called add(). */
struct work {
  uint64_t numbers;
  unsigned long added;
};
static uint64_t number_below(struct work* work, uint64_t n) {
  work->numbers ^= work->numbers << 13;
  work->numbers ^= work->numbers >> 7;
  work->numbers ^= work->numbers << 17;
  return work->numbers % n;
}

static void add(struct work* work) {
  pthread_mutex_lock(&mutex);
  guarded++;
  if (number_below(work, 4) == 0) sched_yield();
  pthread_mutex_unlock(&mutex);
  work->added++;
}

static void map(struct work* work) {
  const size_t size = (1 + number_below(work, 16)) << 12;
  char* memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return;
  const char mark = (char)number_below(work, 256);
  memset(memory, mark, size);
  if (number_below(work, 2) == 0) mprotect(memory, size, PROT_READ);
  for (size_t at = 0; at < size; at += 512) {
    if (memory[at] != mark) failed("memory of a thread has changed at %p", (void*)(memory + at));
  }
  munmap(memory, size);
}

static void allocate(struct work* work) {
  char* const memory = malloc(1 + number_below(work, 5000));
  if (memory) memory[0] = 1;
  free(memory);
}

static void make_child(struct work* work) {
  const pid_t child = fork();
  if (child == 0) _exit((int)number_below(work, 4));
  if (child < 0) return;
  while (waitpid(child, NULL, 0) < 0 && errno == EINTR) continue;
}

static void use_file(struct work* work) {
  const int fd = open("/tmp", O_RDONLY | O_CLOEXEC);
  char byte;
  if (fd < 0) return;
  if (number_below(work, 2) == 0) read(fd, &byte, 1);
  close(fd);
}

static void* work_on(void* argument) {
  struct work* const work = argument;
  for (int i = 0; i < ROUNDS; i++) {
    switch (number_below(work, 8)) {
      case 0:
        map(work);
        break;
      case 1:
        allocate(work);
        break;
      case 2:
        use_file(work);
        break;
      case 3:
        if (number_below(work, 8) == 0) make_child(work);
        break;
      default:
        add(work);
    }
  }
  return NULL;
}

static void* wait_for_good(void* argument) {
  char byte;
  if (argument) {
    for (;;) read(quiet[0], &byte, 1);
  }
  pthread_mutex_lock(&mutex);
  for (;;) pthread_cond_wait(&never, &mutex);
  return NULL;
}

static void* execute(void* argument) {
  (void)argument;
  char* const arguments[] = {"true", NULL};
  execv("/bin/true", arguments);
  return NULL;
}

static void use_threads(void) {
  static struct work work[MOST];
  pthread_t threads[MOST];
  pthread_t other;
  unsigned made = 0, asleep = 0;
  if (pipe(quiet) != 0) _exit(0);
  for (const unsigned count = 1 + (unsigned)random_below(MOST); made < count; made++) {
    work[made].numbers = random_any() | 1;
    if (pthread_create(&threads[made], NULL, work_on, &work[made]) != 0) break;
  }
  for (const unsigned count = (unsigned)random_below(4); asleep < count; asleep++) {
    if (pthread_create(&other, NULL, wait_for_good, asleep % 2 ? quiet : NULL) != 0) break;
  }
  switch (random_below(5)) {
    case 0:
      break; /* ends while the threads work */
    case 1:
      if (pthread_create(&other, NULL, execute, NULL) == 0) pthread_join(other, NULL);
      break;
    case 2:
      kill(getpid(), SIGKILL);
      break;
    case 3:
      if (asleep == 0) pthread_exit(NULL); /* the last thread's end ends the process */
      break;
    default: {
      unsigned long added = 0;
      for (unsigned i = 0; i < made; i++) {
        pthread_join(threads[i], NULL);
        added += work[i].added;
      }
      if (added != guarded) failed("threads have added %lu, not %lu", guarded, added);
    }
  }
  _exit(0);
}

void threads(void) {
  const pid_t child = spawn();
  if (child == 0) use_threads();
  finish(child);
}
