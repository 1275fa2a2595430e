/* proctest [TEST…]: tests processes, memory, signals and bad pointers with system calls. Runs all
 * tests if no TEST is named. Prints one line for each test and one for each failed expectation. The
 * status is 0 if no expectation failed. If memory runs out so that a child is killed or cannot be
 * forked, proctest reports the failure at once and does not wait for the work of that child.
 *
 * proctest exhaust N: makes more processes than fit into memory, N times in a row. fork, exec and
 * the processes themselves then run out of memory at many steps. For a guest with little memory.
 *
 * proctest forks N: makes N short-lived children, some of which execute a program. Tests then check
 * that the kernel has freed everything that belonged to the children.
 *
 * proctest frames: makes system calls on many broken stacks. Each call leaks objects of the cache
 * debug_64. Prints the number of leaked objects.
 *
 * proctest knownframes: leaks nine objects of debug_64. Repeats calls on the same stacks, so that
 * the kernel caches the stacks. Some of the stacks change between the calls.
 *
 * proctest walk UID PATH…: makes many system calls on each file at and below each PATH, as user UID
 * (walk.c). proctest crowd UID N PATH…: makes the same calls as N users at once.
 *
 * proctest mended NAME: what defects needed that are mended (mended.c).
 *
 * proctest as UID PROGRAM [ARGUMENT…]: runs a program as another user.
 */
#include "proctest.h"

const char* program;

static const struct named_test tests[] = {
    {"fork", test_fork},
    {"memory", test_memory},
    {"exec", test_exec},
    {"signals", test_signals},
    {"kill", test_kill},
    {"faults", test_faults},
    {"descriptors", test_descriptors},
    {"pointers", test_bad_pointers},
    {"registers", test_user_registers},
};

long poll_ms(struct abi_pollfd* entries, long count, int ms) {
  struct abi_timespec time = {ms / 1000, (long)(ms % 1000) * 1000000};
  return STELE_CALL(poll, entries, count, ms < 0 ? 0 : (long)&time, 0);
}

static int make_forks(long n) {
  char* arguments[] = {(char*)program, "helper", "exit", NULL};
  for (long i = 0; i < n; i++) {
    pid_t pid = fork();
    if (pid < 0) {
      perror("proctest: fork");
      return 1;
    }
    if (pid == 0) {
      if (i % 4 == 0) execve(program, arguments, NULL);
      _exit(0);
    }
    if (status_of(pid) != 0) return 1;
  }
  return 0;
}

/* Takes a megabyte of memory, page by page, and makes pipes and children meanwhile. Some children
 * do the same, `depth` levels deep. Each step may fail. */
static int takes_more(void* argument) {
  const long depth = (long)argument;
  static char bytes[1 << 20];
  char* const arguments[] = {(char*)program, "helper", "exit", NULL};
  for (size_t i = 0; i < sizeof bytes; i += 4096) {
    bytes[i] = 1;
    if (i % (sizeof bytes / 4) != 0) continue;
    int ends[2];
    if (pipe(ends) == 0 && write(ends[1], bytes, 100) < 0) close(ends[0]);
    pid_t child = fork();
    if (child == 0) {
      if (depth > 0 && i == 0) return takes_more((void*)(depth - 1));
      execve(program, arguments, NULL);
      _exit(1);
    }
    if (child > 0 && i != 0) status_of(child);
  }
  while (wait(NULL) > 0) continue;
  return 0;
}

/* Returns when all descendants have ended, even the orphans of killed children. Every descendant
 * has the pipe's write end, so read() does not return before the last descendant has ended. */
static int exhaust(long rounds) {
  pid_t children[30];
  int descendants[2];
  if (pipe(descendants) != 0) return 1;
  for (long round = 0; round < rounds; round++) {
    for (int i = 0; i < 30; i++) {
      children[i] = fork();
      if (children[i] == 0) _exit(takes_more((void*)2));
    }
    for (int i = 0; i < 30; i++) {
      if (children[i] > 0) status_of(children[i]);
    }
  }
  while (wait(NULL) > 0) continue;
  close(descendants[1]);
  char byte;
  return read(descendants[0], &byte, 1) != 0;
}

int main(int argc, char** argv) {
  program = argv[0][0] == '/' ? argv[0] : "/bin/proctest";
  if (argc > 1 && strcmp(argv[1], "helper") == 0) return exec_helper(argc, argv);
  if (argc > 2 && strcmp(argv[1], "forks") == 0) return make_forks(atol(argv[2]));
  if (argc > 2 && strcmp(argv[1], "exhaust") == 0) return exhaust(atol(argv[2]));
  if (argc > 1 && strcmp(argv[1], "frames") == 0) return make_frames();
  if (argc > 1 && strcmp(argv[1], "knownframes") == 0) return make_known_frames();
  if (argc > 3 && strcmp(argv[1], "walk") == 0)
    return walk_as((uid_t)atol(argv[2]), argc - 3, argv + 3);
  if (argc > 4 && strcmp(argv[1], "crowd") == 0)
    return crowd_as((uid_t)atol(argv[2]), atoi(argv[3]), argc - 4, argv + 4);
  if (argc > 2 && strcmp(argv[1], "mended") == 0) return do_mended(argv[2]);
  if (argc > 3 && strcmp(argv[1], "as") == 0) {
    const uid_t uid = (uid_t)atol(argv[2]);
    if (setgid(uid) != 0 || setuid(uid) != 0) return 1;
    execvp(argv[3], argv + 3);
    return 127;
  }
  return RUN_TESTS(tests, argc, argv);
}
