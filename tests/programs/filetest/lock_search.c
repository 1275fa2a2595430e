/* `filetest FOLDER search`: the CPU time of a request for a lock that many locks block, whose
 * owners wait for locks themselves. */
#include <sys/resource.h>

#include "filetest.h"

enum { HOLDERS = 32, LOCKS = 32, EACH = 2 * LOCKS };

static int told[2];

static int wait_for_lock(int fd, off_t bytes) {
  struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = bytes};
  return fcntl(fd, F_SETLKW, &lock);
}

/* Locks every second byte of its part of the file, then waits for the parts of the holders before
 * it. */
static int holds_and_waits(void* argument) {
  const int number = *(int*)argument;
  const int fd = open("file", O_RDWR);
  for (int i = 0; i < LOCKS; i++) {
    struct flock lock = {.l_type = F_WRLCK, .l_start = number * EACH + 2 * i, .l_len = 1};
    if (fcntl(fd, F_SETLK, &lock) < 0) return 1;
  }
  if (write(told[1], "r", 1) != 1) return 1;
  return number == 0 ? pause() : wait_for_lock(fd, (off_t)number * EACH);
}

static int waits_for_all(void* argument) {
  (void)argument;
  return wait_for_lock(open("file", O_RDWR), 0);
}

/* Prints the CPU time of a child that waits for all locks, in microseconds. */
int lock_search(void) {
  pid_t holders[HOLDERS];
  char byte;
  write_text("file", "");
  if (pipe(told) < 0) return 1;
  for (int i = 0; i < HOLDERS; i++) {
    holders[i] = start_child_with(holds_and_waits, &i);
    if (read(told[0], &byte, 1) != 1) return 1;
    wait_until_asleep(holders[i]);
  }
  const pid_t last = start_child_with(waits_for_all, NULL);
  wait_until_asleep(last);
  struct rusage usage;
  int status;
  if (kill(last, SIGKILL) < 0 || wait4(last, &status, 0, &usage) != last) return 1;
  if (!WIFSIGNALED(status)) return 1;
  printf("%ld us\n", (long)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000 +
                         usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
  for (int i = 0; i < HOLDERS; i++) kill(holders[i], SIGKILL);
  while (wait(NULL) > 0) continue;
  return 0;
}
