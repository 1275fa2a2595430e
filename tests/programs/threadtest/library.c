/* Several threads use the C library: heap, streams, environment and errors. Threads also fork while
 * other threads use the library. */
#include <fcntl.h>
#include <spawn.h>

#include "threadtest.h"

enum { THREADS = 8, TIMES = 1000 };

extern char** environ;

static uint32_t next_of(uint32_t* state) {
  return *state = *state * 1664525 + 1013904223;
}

static void* use_heap(void* argument) {
  enum { HELD = 16 };
  unsigned char* held[HELD] = {NULL};
  size_t sizes[HELD] = {0};
  uint32_t state = (uint32_t)(long)argument;
  const unsigned char mark = (unsigned char)(long)argument;
  for (int i = 0; i < TIMES; i++) {
    const unsigned which = next_of(&state) >> 16 & (HELD - 1);
    for (size_t at = 0; at < sizes[which]; at += 97) EXPECT(held[which][at] == mark);
    const size_t size = (next_of(&state) >> 12) % 5000 + 1;
    if (next_of(&state) >> 30 == 0) {
      free(held[which]);
      held[which] = NULL;
      sizes[which] = 0;
    } else {
      unsigned char* grown = realloc(held[which], size);
      EXPECT(grown != NULL);
      memset(grown, mark, size);
      held[which] = grown;
      sizes[which] = size;
    }
  }
  for (int i = 0; i < HELD; i++) free(held[i]);
  return NULL;
}

static FILE* shared_stream;
static void* write_lines(void* argument) {
  for (int i = 0; i < 200; i++) {
    EXPECT(fprintf(shared_stream, "thread %ld line %d %s\n", (long)argument, i,
                   "with some words that make it longer than one piece") > 0);
  }
  return NULL;
}
static void* own_streams(void* argument) {
  char path[32];
  sprintf(path, "/tmp/threadtest.%ld", (long)argument);
  for (int i = 0; i < 20; i++) {
    FILE* stream = fopen(path, "w+");
    EXPECT(stream != NULL);
    if (stream == NULL) break;
    fprintf(stream, "%ld %d %.3f\n", (long)argument, i, i / 8.0);
    rewind(stream);
    long number = -1;
    int line = -1;
    double eighths = -1;
    EXPECT(fscanf(stream, "%ld %d %lf", &number, &line, &eighths) == 3 &&
           number == (long)argument && line == i && eighths == i / 8.0);
    fclose(stream);
  }
  unlink(path);
  return NULL;
}
static void* use_environment(void* argument) {
  char name[32], value[32];
  sprintf(name, "THREAD%ld", (long)argument);
  for (int i = 0; i < 200; i++) {
    sprintf(value, "%d", i);
    EXPECT(setenv(name, value, 1) == 0);
    const char* seen = getenv(name);
    EXPECT(seen != NULL && strcmp(seen, value) == 0);
  }
  EXPECT(unsetenv(name) == 0 && getenv(name) == NULL);
  return NULL;
}
static void* use_errors(void* argument) {
  char path[64];
  for (int i = 0; i < 100; i++) {
    sprintf(path, "/tmp/no such file of %ld", (long)argument);
    const int error = i % 2 ? EBADF : ENOENT;
    if (i % 2)
      close(4000);
    else
      open(path, O_RDONLY);
    EXPECT(errno == error);
    char copy[256];
    strcpy(copy, strerror(errno));
    sched_yield();
    EXPECT(errno == error && strcmp(copy, strerror(errno)) == 0);
  }
  return NULL;
}
static void* use_time(void* argument) {
  for (int i = 0; i < 200; i++) {
    const time_t when = (long)argument * 100000000 + i;
    struct tm* broken = gmtime(&when);
    sched_yield();
    EXPECT(timegm(broken) == when);
  }
  return NULL;
}
static void* use_random(void* argument) {
  for (int i = 0; i < TIMES; i++) EXPECT(random() >= 0);
  return argument;
}
static void nothing(void) {}
static void* use_atexit(void* argument) {
  for (int i = 0; i < 10; i++) EXPECT(atexit(nothing) == 0);
  return argument;
}

static int run_in_threads(void* (*const functions[])(void*), int count) {
  pthread_t threads[THREADS];
  for (long i = 0; i < THREADS; i++) threads[i] = begin(functions[i % count], (void*)(i + 1));
  for (int i = 0; i < THREADS; i++) join(threads[i]);
  return 1;
}

static int lines_are_whole(FILE* stream) {
  char line[256];
  int lines = 0, thread, number, next[THREADS + 1] = {0};
  rewind(stream);
  while (fgets(line, sizeof line, stream) != NULL) {
    char rest[200] = "";
    if (sscanf(line, "thread %d line %d %199[^\n]", &thread, &number, rest) != 3) return 0;
    if (strcmp(rest, "with some words that make it longer than one piece") != 0) return 0;
    if (thread < 1 || thread > THREADS || next[thread]++ != number) return 0;
    lines++;
  }
  return lines == 200 * THREADS;
}

/* A thread that reads from a stream for ever holds the stream's lock. exit() must still end the
 * program. */
static sem_t reading;
static void* read_for_ever(void* stream) {
  sem_post(&reading);
  fgetc(stream);
  return NULL;
}
static int exits_while_read(void) {
  int ends[2];
  EXPECT(pipe(ends) == 0);
  FILE* stream = fdopen(ends[0], "r");
  sem_init(&reading, 0, 0);
  begin(read_for_ever, stream);
  while (sem_wait(&reading) != 0) continue;
  while (ftrylockfile(stream) == 0) {
    funlockfile(stream);
    sched_yield();
  }
  exit(31);
}

void test_library(void) {
  void* (*const all[])(void*) = {use_heap, own_streams, use_environment, use_errors,
                                 use_time, use_random,  use_atexit};
  void* (*const heap[])(void*) = {use_heap};
  void* (*const lines[])(void*) = {write_lines};
  CHECK(run_in_threads(heap, 1));
  CHECK(run_in_threads(all, 7));
  shared_stream = tmpfile();
  CHECK(shared_stream != NULL && run_in_threads(lines, 1) && lines_are_whole(shared_stream));
  fclose(shared_stream);
  CHECK(WEXITSTATUS(in_child(exits_while_read)) == 31);
}

/* ---- Forks. */

static atomic_int stop;
static void* use_all_until(void* argument) {
  long rounds = 0;
  while (!atomic_load(&stop)) {
    free(malloc((size_t)(rounds % 3000)));
    FILE* stream = fopen("/dev/null", "w");
    if (stream != NULL) {
      fprintf(stream, "%ld", rounds);
      fclose(stream);
    }
    setenv("FORKS", rounds % 2 ? "a" : "b", 1);
    rounds++;
  }
  return argument;
}

static void* in_the_child(void* argument) {
  return argument;
}
/* Uses the library in a child, which also makes threads. */
static int uses_everything(void) {
  for (int i = 0; i < 20; i++) free(malloc(1000));
  FILE* stream = fopen("/dev/null", "w");
  if (stream == NULL || fprintf(stream, "x") != 1 || fclose(stream) != 0) return 2;
  if (setenv("CHILD", "1", 1) != 0 || getenv("FORKS") == NULL) return 3;
  char text[64];
  snprintf(text, sizeof text, "%f", 1.5);
  pthread_t threads[4];
  for (long i = 0; i < 4; i++) threads[i] = begin(in_the_child, (void*)i);
  for (long i = 0; i < 4; i++) {
    if (join(threads[i]) != (void*)i) return 4;
  }
  return 42;
}

static void* fork_often(void* argument) {
  long right = 0;
  for (int i = 0; i < 20; i++) {
    const pid_t child = fork();
    if (child == 0) _exit(uses_everything());
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
    right += WIFEXITED(status) && WEXITSTATUS(status) == 42;
  }
  return (void*)(argument == NULL ? right : -1);
}

static void* spawn_often(void* argument) {
  long right = 0;
  char* const program[] = {"sh", "-c", "exit 7", NULL};
  for (int i = 0; i < 5; i++) {
    pid_t child;
    int status = 0;
    if (posix_spawn(&child, "/bin/sh", NULL, NULL, program, environ) != 0) break;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
    right += WIFEXITED(status) && WEXITSTATUS(status) == 7;
    right += WEXITSTATUS(system("exit 8")) == 8;
  }
  return (void*)(argument == NULL ? right : -1);
}

static char order[16];
static int noting; /* 1 only during one test, because fork handlers cannot be removed */
static void note(char letter) {
  if (noting) order[strlen(order)] = letter;
}
static void prepare_1(void) {
  note('1');
}
static void prepare_2(void) {
  note('2');
}
static void parent_1(void) {
  note('p');
}
static void parent_2(void) {
  note('q');
}
static void child_1(void) {
  note('c');
}
static void child_2(void) {
  note('d');
}

static pthread_mutex_t held = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static int has_what_was_held(void) {
  /* The child's only thread is a copy of the thread that owned the mutex, so the copy owns the
   * mutex in the child. */
  if (pthread_mutex_lock(&held) != 0 || pthread_mutex_unlock(&held) != 0) return 1;
  if (pthread_mutex_unlock(&held) != 0 || pthread_mutex_unlock(&held) != EPERM) return 2;
  /* The end of the only thread ends the process. */
  pthread_exit(NULL);
}
static void* forks_with_mutex(void* argument) {
  pthread_mutex_lock(&held);
  const int status = in_child(has_what_was_held);
  pthread_mutex_unlock(&held);
  return (void*)(long)(WIFEXITED(status) ? WEXITSTATUS(status) : (int)(long)argument);
}

static int executes_another(void) {
  atomic_store(&stop, 0);
  for (int i = 0; i < 4; i++) begin(use_all_until, NULL);
  execl("/bin/sh", "sh", "-c", "exit 9", NULL);
  return 1;
}
static void* execs(void* argument) {
  execl("/bin/sh", "sh", "-c", "exit 10", NULL);
  return argument;
}
static int another_executes(void) {
  begin(execs, NULL);
  for (;;) pause();
  return 1;
}

void test_forks(void) {
  pthread_t busy[4], forking[3];
  setenv("FORKS", "a", 1);
  for (int i = 0; i < 4; i++) busy[i] = begin(use_all_until, NULL);
  for (int i = 0; i < 3; i++) forking[i] = begin(i == 2 ? spawn_often : fork_often, NULL);
  CHECK(join(forking[0]) == (void*)20 && join(forking[1]) == (void*)20);
  CHECK(join(forking[2]) == (void*)10);
  atomic_store(&stop, 1);
  for (int i = 0; i < 4; i++) join(busy[i]);

  CHECK(join(begin(forks_with_mutex, (void*)99)) == NULL);

  CHECK(pthread_atfork(prepare_1, parent_1, child_1) == 0 &&
        pthread_atfork(prepare_2, parent_2, child_2) == 0 && pthread_atfork(NULL, NULL, NULL) == 0);
  fflush(stdout);
  noting = 1;
  const pid_t child = fork();
  if (child == 0) _exit(strcmp(order, "21cd") == 0 ? 42 : 1);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  CHECK(WEXITSTATUS(status) == 42 && strcmp(order, "21pq") == 0);
  noting = 0;

  CHECK(WEXITSTATUS(in_child(executes_another)) == 9);
  CHECK(WEXITSTATUS(in_child(another_executes)) == 10);
}
