/* failtest [-v | -1] [WORD…]: makes every system call that allocates, and lets each of the call's
 * allocations fail, one after the other.
 *
 * An operation is a system call with its preparation. failtest tries each operation whose name
 * contains a WORD. Without a WORD it tries all operations except those on /host, which need a
 * shared folder (scripts/guest --share).
 *
 * Each attempt is made in a child process. Before the call, the child writes a command to
 * #debug/alloc: `failnext 1 after=M`. The next M allocations then succeed, and the one after them
 * fails. M is 0, 1, 2 and so on, until no allocation of the call fails. Then the operation is tried
 * again for each M, but now all allocations after the first M fail. So the clean-up after an error
 * cannot allocate either.
 *
 * In each attempt the call must return ENOMEM or succeed. In an operation with may_die (failtest.h)
 * the kernel may kill the child instead. After ENOMEM the child makes the call a second time,
 * without failures, and the call must succeed. Nothing may be left behind: the counts of
 * take_counts() must be the same after each operation as before.
 *
 * failtest prints every violation. With -v it also prints the number of attempts with each outcome.
 * The status is 0 if there is no violation. Only root can run failtest. With -1 it makes each call
 * once, in its own process, and writes no failnext command. So another program can decide which
 * allocations fail (leaksweep).
 */
#include "failtest.h"

#include "tool/touch_pages.h"

enum outcome {
  NOT_REACHED,
  NO_MEMORY,
  WENT_ON,
  WRONG_ERROR,
  FAILS_ANYWAY,
  FAILS_AGAIN,
  NOT_PREPARED,
  KILLED,
  OUTCOMES
};
static const char* const outcome_names[] = {
    "not reached",
    "ENOMEM",
    "went on",
    "another error",
    "fails without a fault",
    "fails at the second try",
    "what comes before it fails",
    "killed",
};

const char* program;
char try_number[8] = "first";
enum { CONTROL = 9 }; /* the descriptor of #debug/alloc; programs that a child starts inherit it */
static int failures;
static int verbose;

_Noreturn void not_prepared(long error) {
  fprintf(stderr, "# failtest: something that must succeed gave error %ld\n", error);
  _exit(NOT_PREPARED);
}

static _Noreturn void give_up(const char* what) {
  perror(what);
  exit(2);
}

static void command(int fd, const char* text) {
  if (STELE_CALL(write, fd, text, strlen(text)) < 0) {
    fprintf(stderr, "failtest: %s", text);
    exit(2);
  }
}

/* Returns the number of allocations that the last failnext command has made fail. */
static unsigned long faults_met(void) {
  static char text[8192];
  const int fd = open("#debug/alloc", O_RDONLY);
  const ssize_t size = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
  if (size < 0) give_up("failtest: #debug/alloc");
  close(fd);
  text[size] = '\0';
  const char* line = strstr(text, "failnext ");
  const char* number = line ? strstr(line, "failed ") : NULL;
  return number ? strtoul(number + 7, NULL, 10) : 0;
}

_Noreturn void report(long result, int again) {
  command(CONTROL, "failnext 0\n");
  const int failed = result < 0 && result >= -4095;
  if (again) _exit(failed ? FAILS_AGAIN : NO_MEMORY);
  if (faults_met() == 0) _exit(failed ? FAILS_ANYWAY : NOT_REACHED);
  if (failed && result != -ENOMEM) {
    fprintf(stderr, "# error %ld\n", -result);
    _exit(WRONG_ERROR);
  }
  _exit(failed ? NO_MEMORY : WENT_ON);
}

/* Makes one attempt, in a child process. */
static _Noreturn void attempt(const struct operation* operation, const char* request) {
  if (operation->prepare) operation->prepare(operation);
  faults_met(); /* the first call allocates memory, and must do so before `request` is given */
  command(CONTROL, request);
  const long result = operation->call(operation);
  command(CONTROL, "failnext 0\n");
  long second = result;
  if (result == -ENOMEM) {
    strcpy(try_number, "again");
    second = operation->call(operation);
  }
  if (operation->undo) operation->undo(operation);
  if (second == result) report(result, 0);
  report(second, 1);
}

static enum outcome outcome_of(const struct operation* operation, const char* request) {
  fflush(stdout);
  const pid_t pid = fork();
  if (pid < 0) give_up("failtest: fork");
  if (pid == 0) attempt(operation, request);
  int status;
  if (waitpid(pid, &status, 0) != pid) give_up("failtest: waitpid");
  return WIFEXITED(status) && WEXITSTATUS(status) < KILLED ? (enum outcome)WEXITSTATUS(status)
                                                           : KILLED;
}

/* ---- Counts. */

struct count {
  char name[40];
  unsigned long value;
};
struct counts {
  struct count entries[256];
  unsigned size;
};

static void add_count(struct counts* counts, const char* name, unsigned long value) {
  if (counts->size == sizeof(counts->entries) / sizeof(counts->entries[0]))
    give_up("failtest: too many caches");
  struct count* count = &counts->entries[counts->size++];
  snprintf(count->name, sizeof(count->name), "%s", name);
  count->value = value;
}

/* Reads #mem/kmemstat and stores these counts:
 *
 * - the live objects of each cache that can be traced,
 * - the live references of each class of references,
 * - the bytes that direct callers (arena.h) have allocated from the page arena. The number of these
 *   allocations is not compared, because one large allocation may replace several small ones,
 * - the live allocations of direct callers from each other arena, except `base`.
 *
 * Free objects in the page arena's quantum caches are not counted, because their number depends on
 * the CPUs that were used. */
static void take_counts(struct counts* counts) {
  static char line[256];
  counts->size = 0;
  const int ctl = open("#mem/kmemtrace/ctl", O_WRONLY);
  if (ctl < 0) give_up("failtest: #mem/kmemtrace/ctl");
  command(ctl, "settle\n");
  close(ctl);
  FILE* file = fopen("#mem/kmemstat", "r");
  if (!file) give_up("failtest: #mem/kmemstat");
  while (fgets(line, sizeof(line), file)) {
    char name[40], type, traced[16] = "";
    unsigned long allocated, live;
    if (sscanf(line, "%39s %c %*u %*u %lu %lu %*u %*u %15s", name, &type, &allocated, &live,
               traced) < 4)
      continue;
    if ((type == 'S' && strcmp(traced, "never") != 0) || type == 'R') add_count(counts, name, live);
    if (type != 'A' || strcmp(name, "base") == 0) continue;
    if (strcmp(name, "page") == 0) {
      add_count(counts, "bytes in pages", allocated);
    } else {
      add_count(counts, name, live);
    }
  }
  fclose(file);
}

/* Returns the number of counts that differ. Prints the counts that differ if `say` is set. */
static int compare(const char* name, const struct counts* before, const struct counts* after,
                   int say) {
  int differences = 0;
  for (unsigned i = 0; i < after->size; i++) {
    const struct count* count = &after->entries[i];
    unsigned j = 0;
    while (j < before->size && strcmp(before->entries[j].name, count->name) != 0) j++;
    const unsigned long was = j < before->size ? before->entries[j].value : 0;
    if (was == count->value) continue;
    differences++;
    if (say) printf("# %s: %s was %lu, is %lu\n", name, count->name, was, count->value);
  }
  return differences;
}

/* ---- One operation, with each of its allocations. */

static void try_each(const struct operation* operation, const char* many, unsigned* outcomes) {
  char request[64];
  for (unsigned long after = 0;; after++) {
    snprintf(request, sizeof(request), "failnext %s after=%lu\n", many, after);
    const enum outcome outcome = outcome_of(operation, request);
    outcomes[outcome]++;
    if (outcome == NOT_REACHED) return;
    if (outcome == NO_MEMORY || outcome == WENT_ON || (outcome == KILLED && operation->may_die))
      continue;
    failures++;
    printf("# %s: failnext %s after=%lu: %s\n", operation->name, many, after,
           outcome_names[outcome]);
    if (outcome == FAILS_ANYWAY || outcome == NOT_PREPARED) return;
  }
}

/* Makes each of an operation's allocations fail, and compares the counts. If the counts have
 * changed, repeats all of this, in at most three rounds. This program's memory or a kernel table
 * grows only in the first round, but a leak happens in each round. */
static void run(const struct operation* operation, struct counts* counts) {
  unsigned outcomes[OUTCOMES] = {0};
  struct counts before;
  int differences = 1;
  for (int rounds = 0; rounds < 3 && differences > 0; rounds++) {
    before = *counts;
    try_each(operation, "1", outcomes);
    try_each(operation, "1000000", outcomes);
    take_counts(counts);
    differences = compare(operation->name, &before, counts, rounds == 2);
  }
  failures += differences;
  if (!verbose) return;
  printf("%s:", operation->name);
  for (int i = NO_MEMORY; i < OUTCOMES; i++) {
    if (outcomes[i]) printf(" %u %s", outcomes[i], outcome_names[i]);
  }
  printf("\n");
}

static void run_once(const struct operation* operation) {
  if (operation->prepare) operation->prepare(operation);
  operation->call(operation);
  if (operation->undo) operation->undo(operation);
}

static int wanted(const char* name, int count, char** words) {
  for (int i = 0; i < count; i++) {
    if (strstr(name, words[i])) return 1;
  }
  return count == 0 && strncmp(name, "host ", 5) != 0;
}

int main(int argc, char** argv) {
  program = "/bin/failtest";
  if (argc > 2 && strcmp(argv[1], "helper") == 0) {
    command(CONTROL, "failnext 0\n");
    unlink(SCRIPT);
    report(0, strcmp(argv[argc - 1], "again") == 0);
  }
  const int control = open("#debug/alloc", O_RDWR);
  if (control < 0 || dup2(control, CONTROL) < 0) give_up("failtest: #debug/alloc");
  close(control);
  touch_all_pages(); /* otherwise a failnext command could make a page fault fail */
  const int once = argc > 1 && strcmp(argv[1], "-1") == 0;
  verbose = argc > 1 && strcmp(argv[1], "-v") == 0;
  const int first = once || verbose ? 2 : 1;
  mkdir(FOLDER, 0755);
  unsigned run_count = 0;
  static struct counts counts;
  if (!once) take_counts(&counts);
  for (unsigned i = 0; i < operation_count; i++) {
    if (!wanted(operations[i].name, argc - first, argv + first)) continue;
    if (once) {
      run_once(&operations[i]);
    } else {
      run(&operations[i], &counts);
    }
    run_count++;
  }
  rmdir(FOLDER);
  if (once) return run_count == 0;
  printf("%u operations, %d failures\n", run_count, failures);
  return run_count == 0 || failures != 0;
}
