/* threads(): a process whose threads lock, wait, signal and fork, and make and cancel more threads
 * (thread_activities.c). The first thread cancels some of the threads and replaces each thread that
 * has ended.
 *
 * The end of the process is chosen at random. In an orderly end, all threads finish their
 * functions, and the counts of the shared data are checked. After these checks the first thread may
 * start new threads and end before them, so that the process ends with its last thread. In any
 * other end, the process ends while the threads work: a thread calls exit or exec or causes a
 * fault, or the parent kills the process.
 */
#include "threads.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

_Noreturn void wrong(const char* what, const char* file, int line) {
  failed("%s:%d: not so: %s (errno %d)", file, line, what, errno);
  _exit(1);
}

void check_end(pid_t child, int code, const char* what) {
  int status;
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR) return;
  if (WIFSIGNALED(status)) {
    switch (WTERMSIG(status)) {
      case SIGKILL: /* also for lack of memory */
      case SIGTERM:
      case SIGINT:
      case SIGHUP:
        return;
      case SIGSEGV:
        if (code == SEGFAULT) return;
    }
  } else if (WEXITSTATUS(status) == code || WEXITSTATUS(status) == NO_MEMORY) {
    return;
  }
  failed("%s has status 0x%x", what, (unsigned)status);
}

/* ---- Threads. */

atomic_long threads_made, threads_ended;

struct beginning {
  void* (*function)(void*);
  void* argument;
  uint64_t seed;
  unsigned char* doing;
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
  doing = beginning.doing;
  pthread_cleanup_push(count_end, NULL);
  result = beginning.function(beginning.argument);
  pthread_cleanup_pop(1);
  return result;
}

static bool begin_doing(pthread_t* thread, void* (*function)(void*), void* argument,
                        unsigned char* its_doing) {
  struct beginning* beginning = malloc(sizeof *beginning);
  if (beginning == NULL) return false;
  *beginning = (struct beginning){function, argument, random_any(), its_doing};
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  /* Stacks have several sizes, so that a new thread cannot always reuse the stack of an old one. */
  if (random_one_in(4)) pthread_attr_setstacksize(&attributes, 65536 << random_below(3));
  atomic_fetch_add(&threads_made, 1);
  const int error = pthread_create(thread, &attributes, run, beginning);
  pthread_attr_destroy(&attributes);
  if (error == 0) return true;
  MUST(error == EAGAIN);
  atomic_fetch_sub(&threads_made, 1);
  free(beginning);
  return false;
}
bool begin(pthread_t* thread, void* (*function)(void*), void* argument) {
  return begin_doing(thread, function, argument, doing);
}
void* join(pthread_t thread) {
  void* result;
  const int error = pthread_join(thread, &result);
  errno = error;
  MUST(error == 0);
  return result;
}

/* ---- The process. */

static enum end { IN_ORDER, BY_LEAVING, BY_EXIT, BY_EXEC, BY_FAULT, BY_PARENT, ENDS } end;
enum { EXIT_STATUS = 77 };

static atomic_bool stop;
static struct worker {
  pthread_t thread;
  bool is_there;
  atomic_bool has_ended;
} workers[THREADS_MAX];

static void set_ended(void* worker) {
  atomic_store(&((struct worker*)worker)->has_ended, true);
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
    act_in_thread();
    for (int s = 0; s < 8; s++) MUST(signature[s] == (uintptr_t)argument + (unsigned)s);
  }
  if (random_one_in(2)) pthread_exit((void*)1);
  pthread_cleanup_pop(1);
  return (void*)1;
}

/* Cancels some workers. Begins each worker that is not there or has ended, and some others. */
static void replace_workers(unsigned count) {
  for (unsigned i = 0; i < count; i++) {
    struct worker* worker = &workers[i];
    if (worker->is_there) {
      if (random_one_in(8)) MUST(pthread_cancel(worker->thread) == 0);
      if (!atomic_load(&worker->has_ended) && !random_one_in(16)) continue;
      if (random_one_in(3)) {
        /* The slot of a detached thread can be reused only after the thread has set `has_ended`. */
        if (!atomic_load(&worker->has_ended)) continue;
        MUST(pthread_detach(worker->thread) == 0);
      } else {
        MUST(pthread_cancel(worker->thread) == 0);
        void* result = join(worker->thread);
        MUST(result == (void*)1 || result == PTHREAD_CANCELED);
        MUST(atomic_load(&worker->has_ended));
      }
    }
    atomic_store(&worker->has_ended, false);
    worker->is_there = begin_doing(&worker->thread, work, worker, doing + 1 + i);
  }
}

/* A thread that ends the process, for BY_EXIT, BY_EXEC and BY_FAULT. */
static void* end_the_process(void* argument) {
  if (end == BY_EXIT) exit(EXIT_STATUS);
  if (end == BY_EXEC) {
    /* A pending signal survives exec, but the handler of the signal does not. Without this call,
     * the signal would therefore end the shell. */
    signal(SIGUSR1, SIG_IGN);
    execl("/bin/sh", "sh", "-c", "exit 77", NULL);
    _exit(NO_MEMORY);
  }
  if (end == BY_FAULT) *(volatile int*)argument = 1;
  wrong("still there", __FILE__, __LINE__);
}

static void* only_the_last_ends(void* argument) {
  pause_us((unsigned)random_below(2000));
  return argument;
}

static _Noreturn void use_threads(unsigned count, unsigned ms) {
  struct timespec now, start;
  pthread_t other;
  if (!prepare_thread_activities()) _exit(NO_MEMORY);
  clock_gettime(CLOCK_MONOTONIC, &start);
  do {
    replace_workers(count);
    act_in_thread();
    clock_gettime(CLOCK_MONOTONIC, &now);
  } while ((now.tv_sec - start.tv_sec) * 1000 + (now.tv_nsec - start.tv_nsec) / 1000000 < ms);
  if (end == BY_EXIT || end == BY_EXEC || end == BY_FAULT) {
    if (!begin(&other, end_the_process, (void*)8)) end_the_process((void*)8);
  }
  if (end != IN_ORDER && end != BY_LEAVING) {
    for (;;) act_in_thread();
  }
  atomic_store(&stop, true);
  for (unsigned i = 0; i < count; i++)
    if (workers[i].is_there) join(workers[i].thread);
  check_thread_activities();
  if (end == BY_LEAVING) {
    for (unsigned i = 0; i < count; i++)
      if (begin(&other, only_the_last_ends, NULL)) pthread_detach(other);
    pthread_exit(NULL);
  }
  exit(0);
}

void threads(void) {
  const unsigned count = 1u << random_below(7),
                 ms = (unsigned)random_below(random_one_in(8) ? 2000 : 200);
  end = (enum end)random_below(ENDS);
  const pid_t child = spawn();
  if (child < 0) return;
  if (child == 0) use_threads(count, ms);
  if (end == BY_PARENT) {
    pause_us(ms * 750);
    kill(child, SIGKILL);
  }
  const int codes[ENDS] = {[BY_EXIT] = EXIT_STATUS,
                           [BY_EXEC] = EXIT_STATUS,
                           [BY_FAULT] = SEGFAULT,
                           [BY_PARENT] = NO_MEMORY};
  check_end(child, codes[end], "a process with threads");
}
