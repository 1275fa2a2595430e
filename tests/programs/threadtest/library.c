/* Several threads use the C library: streams, environment and errors. Threads also fork. */
#include <fcntl.h>
#include <spawn.h>

#include "threadtest.h"

enum { THREADS = 8, TIMES = 1000 };

extern char** environ;

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
  void* (*const all[])(void*) = {own_streams, use_environment, use_errors,
                                 use_time,    use_random,      use_atexit};
  void* (*const lines[])(void*) = {write_lines};
  EXPECT(run_in_threads(all, 6));
  shared_stream = tmpfile();
  EXPECT(shared_stream != NULL && run_in_threads(lines, 1) && lines_are_whole(shared_stream));
  fclose(shared_stream);
  EXPECT(WEXITSTATUS(in_child(exits_while_read)) == 31);
}

/* ---- Forks. */

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
  pthread_t spawning[3];
  for (int i = 0; i < 3; i++) spawning[i] = begin(spawn_often, NULL);
  for (int i = 0; i < 3; i++) EXPECT(join(spawning[i]) == (void*)10);

  EXPECT(join(begin(forks_with_mutex, (void*)99)) == NULL);

  EXPECT(pthread_atfork(prepare_1, parent_1, child_1) == 0 &&
         pthread_atfork(prepare_2, parent_2, child_2) == 0 &&
         pthread_atfork(NULL, NULL, NULL) == 0);
  fflush(stdout);
  noting = 1;
  const pid_t child = fork();
  if (child == 0) _exit(strcmp(order, "21cd") == 0 ? 42 : 1);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  EXPECT(WEXITSTATUS(status) == 42 && strcmp(order, "21pq") == 0);
  noting = 0;

  EXPECT(WEXITSTATUS(in_child(another_executes)) == 10);
}
