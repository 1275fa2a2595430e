/* Shared by the files of stress. stress.c describes the program. */
#pragma once

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "testing/random.h"

#define FOLDER "/tmp/stress" /* folder of all files of the workers */
#define MOUNTS 4             /* workers bind at FOLDER/m0 … */
#define CTL "#mem/kmemtrace/ctl"

/* ---- stress.c */

/* Gives a forked child random numbers that differ from its parent's. */
void reseed(void);
/* Reports an error on standard error, and returns. The status of the whole run is then 1. */
void failed(const char* pattern, ...) __attribute__((format(printf, 1, 2)));
void pause_us(unsigned us);
/* Calls fork, and reseed() in the child. */
pid_t spawn(void);
/* Becomes a user without rights. False if this fails, for example for lack of memory. */
bool become_user(void);
/* Waits for a child; with some probability kills it first. */
void finish(pid_t child);
/* Writes a text with one call, and ignores the result. */
void say(const char* path, const char* pattern, ...) __attribute__((format(printf, 2, 3)));
/* Copies the name of a random entry of a directory to `name`; false if there is none. */
bool any_entry(const char* directory, char* name, size_t size);
/* Does one of PROCESS_ACTIVITIES, chosen at random. */
void act(void);
/* Does one of THREAD_ACTIVITIES, chosen at random. */
void act_in_thread(void);
/* The number of the thread's current activity, for a report of a hang; 0: none. Entry i of `doing`
 * in the first thread of threads() is for its thread i; the entries 1 to THREADS_MAX are free. */
enum { THREADS_MAX = 64 };
extern _Thread_local unsigned char* doing;

/* ---- processes.c, threads.c, files.c, tracing.c: the activities. Each runs for some milliseconds,
 * alone or with children of its own. System calls of an activity may fail, because memory runs out
 * or another worker uses the same files.
 */

#define PROCESS_ACTIVITIES(X) \
  X(tree)                     \
  X(programs)                 \
  X(threads)                  \
  X(signals)                  \
  X(memory)                   \
  X(copies)                   \
  X(faults)                   \
  X(user)                     \
  X(pipes)                    \
  X(polls)                    \
  X(files)                    \
  X(appends)                  \
  X(folders)                  \
  X(binds)                    \
  X(devices)                  \
  X(probes)                   \
  X(program_probes)           \
  X(traces)                   \
  X(dumps)                    \
  X(checks)                   \
  X(failures)

/* thread_activities.c: the activities of the threads that threads() makes, with weights. */
#define THREAD_ACTIVITIES(X) \
  X(mutexes, 20)             \
  X(rwlocks, 20)             \
  X(semaphores, 20)          \
  X(conditions, 20)          \
  X(spin_locks, 10)          \
  X(hand_overs, 6)           \
  X(barriers, 4)             \
  X(detached, 4)             \
  X(keys, 4)                 \
  X(cancels, 8)              \
  X(thread_signals, 4)       \
  X(forks, 1)                \
  X(heap, 10)                \
  X(streams, 4)              \
  X(short_pipes, 6)          \
  X(maps, 4)
#define DECLARE(name, ...) void name(void);
PROCESS_ACTIVITIES(DECLARE)
THREAD_ACTIVITIES(DECLARE)
#undef DECLARE

/* ---- counts.c */

/* Reads a dump of all traces and checks three identities for each source: seen = recorded + dropped
 * + filtered; recorded = freed + cleared + live; and the dump contains as many records and bytes as
 * the source counts as live. With `abandon`, the function may stop reading anywhere. False if the
 * file cannot be opened. */
bool check_dump(const char* path, bool abandon);
/* Stores the numbers of live objects of all caches and arenas as count `which` (0 or 1). False if
 * there is not enough memory. */
bool take_counts(int which);
/* Prints the differences between the two counts, and returns the number of differences. */
unsigned compare_counts(void);
