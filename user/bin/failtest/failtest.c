/* failtest [-v | -1] [WORD…]: makes every system call that allocates, and lets each of the call's
 * allocations fail, one after the other.
 *
 * An operation is a system call with its preparation. Each operation whose name contains a WORD is
 * tried in a child process with the order `failnext 1 after=M` of #debug/alloc, for M = 0, 1, 2 …
 * until it succeeds without a failure. Then the operation is tried again with orders that let all
 * allocations after the first M fail, so that its clean-up cannot allocate either. Each time the
 * call must give ENOMEM, or succeed. After ENOMEM the call is made a second time, without failures,
 * and must succeed. Nothing may be left behind: after each operation the live objects of every
 * cache, the segments of every arena and the pages in use must be unchanged.
 *
 * failtest prints every violation, and with -v also each attempt. The status is 0 if there is no
 * violation. It is for root only. The operations on /host (--share) are tried only when a WORD is
 * "host". With -1 it makes each call once, in this process and without an order, so that another
 * program can give the orders.
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
enum { CONTROL = 9 }; /* the descriptor of #debug/alloc, also in programs that are started */
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

/* The number of allocations that the last order has made fail. */
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
static _Noreturn void attempt(const struct operation* operation, const char* order) {
  if (operation->prepare) operation->prepare(operation);
  faults_met(); /* its first call allocates: that must happen before the order */
  command(CONTROL, order);
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

static enum outcome outcome_of(const struct operation* operation, const char* order) {
  fflush(stdout);
  const pid_t pid = fork();
  if (pid < 0) give_up("failtest: fork");
  if (pid == 0) attempt(operation, order);
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

/* Reads #mem/kmemstat and stores a count for each cache that can be traced (live objects), for each
 * kind of references (live references) and for each arena but `base` (live allocations of direct
 * callers: arena.h). For the page arena the count is the bytes of direct callers, since one large
 * allocation may replace several small ones. Free objects in the page arena's quantum caches do not
 * count: their number depends on the CPUs that were used. */
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

/* Returns the number of counts that differ; prints them if `say` is set. */
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
  char order[64];
  for (unsigned long after = 0;; after++) {
    snprintf(order, sizeof(order), "failnext %s after=%lu\n", many, after);
    const enum outcome outcome = outcome_of(operation, order);
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

/* Makes each of an operation's allocations fail. If counts differ afterwards, does so again, up to
 * three times in all. This program's memory or a kernel table grows only the first time; a leak
 * happens each time. */
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
  touch_all_pages(); /* otherwise an order could make a page fault of this program fail */
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
