/* `sigtest share`: two processes compete for one CPU, and how much each of them gets and is charged
 * for. One sleeps shortly before each tick and is woken by the next tick. The other one, with the
 * nice value 19, never sleeps. */
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>

#include "sigtest.h"

enum { kAlone = 200, kTogether = 2000 }; /* milliseconds */

static volatile uint64_t* rounds; /* of never_sleeps(); shared */

static int64_t now_us(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * (int64_t)1000000 + time.tv_nsec / 1000;
}

static int never_sleeps(void) {
  if (setpriority(PRIO_PROCESS, 0, 19) != 0) return 1;
  for (;;) ++*rounds;
}

static int sleeps_before_each_tick(void) {
  while (getppid() != 1) {
    const struct timespec moment = {.tv_nsec = 100000};
    nanosleep(&moment, NULL);
    const int64_t woken = now_us();
    while (now_us() < woken + 3700) continue;
  }
  return 0;
}

static long end_and_charge(pid_t child) {
  struct rusage usage;
  kill(child, SIGKILL);
  if (wait4(child, NULL, 0, &usage) != child) return -1;
  return (long)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000 +
         (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1000;
}

/* Prints three numbers in percent of the time: the work that the process that never sleeps got
 * done, its CPU time, and the CPU time of the other process. */
int share(void) {
  rounds = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (rounds == MAP_FAILED) return 1;
  setpriority(PRIO_PROCESS, 0, -20);
  const pid_t steady = start_child(never_sleeps);
  pause_ms(kAlone);
  const uint64_t alone = *rounds * (kTogether / kAlone);
  end_and_charge(steady);
  *rounds = 0;
  setpriority(PRIO_PROCESS, 0, 0);
  const pid_t again = start_child(never_sleeps), other = start_child(sleeps_before_each_tick);
  pause_ms(kTogether);
  const uint64_t together = *rounds;
  const long steady_charge = end_and_charge(again), other_charge = end_and_charge(other);
  printf("work %lu charged %ld %ld\n", (unsigned long)(together * 100 / alone),
         steady_charge * 100 / kTogether, other_charge * 100 / kTogether);
  return 0;
}
