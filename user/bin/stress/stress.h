/* stress: what its files share. stress.c has the theory. */
#pragma once

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define FOLDER "/tmp/stress" /* all files of the workers */
#define MOUNTS 4             /* FOLDER/m0 … are where workers bind */
#define CTL "#mem/kmemtrace/ctl"

/* ---- stress.c */

uint64_t any(void);         /* 64 bits at random */
uint64_t below(uint64_t n); /* 0 to n - 1 */
bool one_in(unsigned n);
/* Other numbers from here on: for a child. */
void reseed(void);
/* Something is wrong: a line on standard error, and the run ends with status 1. */
void failed(const char* pattern, ...) __attribute__((format(printf, 1, 2)));
void pause_us(unsigned us);
/* fork, and other numbers in the child. */
pid_t spawn(void);
/* Waits for a child; kills it before with some probability. */
void finish(pid_t child);
/* Writes a text with one call; what becomes of it does not matter. */
void say(const char* path, const char* pattern, ...) __attribute__((format(printf, 2, 3)));
/* An entry of a directory at random, into `name`; false if there is none. */
bool any_entry(const char* directory, char* name, size_t size);
/* Any of the activities below. */
void act(void);

/* ---- processes.c, threads.c, files.c, tracing.c: each does something for some milliseconds, alone
 * or with children of its own. Calls may fail for want of memory, and because others do the same.
 */

#define ACTIVITIES(X) \
  X(tree)             \
  X(programs)         \
  X(threads)          \
  X(signals)          \
  X(memory)           \
  X(copies)           \
  X(faults)           \
  X(user)             \
  X(pipes)            \
  X(polls)            \
  X(files)            \
  X(appends)          \
  X(folders)          \
  X(binds)            \
  X(devices)          \
  X(probes)           \
  X(program_probes)   \
  X(traces)           \
  X(dumps)            \
  X(checks)           \
  X(failures)
#define DECLARE(name) void name(void);
ACTIVITIES(DECLARE)
#undef DECLARE

/* ---- counts.c */

/* Reads a dump of all traces and sees whether its identities hold: of each source seen = recorded +
 * dropped + filtered, recorded = freed + cleared + live, and as many records and bytes as it says.
 * With `abandon` it may stop anywhere. False if it could not be opened. */
bool check_dump(const char* path, bool abandon);
/* Live objects of each cache and arena, kept as number `which` (0 or 1). False for want of memory.
 */
bool take_counts(int which);
/* Prints what differs between the two; how many do. */
unsigned compare_counts(void);
