/* Probes, traces, dumps, checking of objects, and allocations that fail. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "stress.h"

enum { NAME = 300 };

static void read_some(const char* path) {
  char buffer[4000];
  int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return;
  for (unsigned i = (unsigned)random_below(20); i > 0; i--)
    if (read(fd, buffer, 1 + random_below(sizeof buffer)) <= 0) break;
  close(fd);
}

/* ---- Probes. */

__attribute__((noinline, noclone)) static unsigned probed(unsigned n) {
  __asm__ volatile("" : "+r"(n));
  return n;
}

static void write_line(int fd, const char* pattern, ...) __attribute__((format(printf, 2, 3)));
static void write_line(int fd, const char* pattern, ...) {
  char line[400];
  va_list arguments;
  va_start(arguments, pattern);
  int length = vsnprintf(line, sizeof line, pattern, arguments);
  va_end(arguments);
  write(fd, line, (size_t)length);
}

static int open_session(char* folder) {
  int session = open("#probe/clone", O_RDWR | O_CLOEXEC);
  char number[32] = "";
  if (session < 0) return -1;
  if (read(session, number, sizeof number - 1) <= 0) {
    close(session);
    return -1;
  }
  snprintf(folder, NAME, "#probe/%d", atoi(number));
  return session;
}

static void use_session(int session, const char* folder, void (*work)(void)) {
  static const char* const views[] = {"counts", "outstanding", "events", "ctl"};
  char name[NAME + 20];
  static const char* const stacks[] = {"kernel", "user", "both", "none"};
  if (random_one_in(2)) write_line(session, "stacks %s\n", stacks[random_below(4)]);
  if (random_one_in(3)) write_line(session, "depth %u\n", 1 + (unsigned)random_below(61));
  if (random_one_in(6)) write_line(session, "processes\n");
  if (random_one_in(6)) write_line(session, "pid %d\n", getpid());
  if (random_one_in(8)) write_line(session, "sample %u\n", 1 + (unsigned)random_below(10000));
  for (unsigned i = 1 + (unsigned)random_below(3); i > 0; i--) {
    write_line(session, "start\n");
    work();
    for (unsigned j = (unsigned)random_below(3); j > 0; j--) {
      const char* view = views[random_below(4)];
      snprintf(name, sizeof name, "%s/%s", folder, view);
      if (strcmp(view, "outstanding") == 0)
        check_dump(name, random_one_in(2));
      else
        read_some(name);
    }
    if (random_one_in(3)) write_line(session, "clear\n");
    if (random_one_in(2)) write_line(session, "stop\n");
  }
}

static void look_around(void) {
  struct stat status;
  for (int i = 0; i < 10; i++) {
    stat("/bin/sh", &status);
    stat("/tmp/nothing", &status);
  }
  pid_t child = spawn();
  if (child == 0) _exit(0);
  finish(child);
}

void probes(void) {
  static const char* const functions[] = {"count pipe*",
                                          "count sys_*",
                                          "count *",
                                          "event sys_open",
                                          "event+return path_*",
                                          "alloc kmalloc size=1\nfree kfree address=1",
                                          "alloc kmem_cache_alloc_sized size=2",
                                          "count slab_*\nevent tmp_*",
                                          "count schedule",
                                          "count nothing_at_all",
                                          "event+return *"};
  char folder[NAME];
  int session = open_session(folder);
  if (session < 0) return;
  write_line(session, "%s\n", functions[random_below(sizeof functions / sizeof *functions)]);
  use_session(session, folder, look_around);
  close(session);
}

static void call_probed(void) {
  for (unsigned i = 0; i < 100; i++)
    if (probed(i) != i) failed("a probed function returns %u for %u", probed(i), i);
  pid_t child = spawn();
  if (child == 0) {
    for (unsigned i = 0; i < 20; i++)
      if (probed(i) != i) failed("a probed function returns %u for %u", probed(i), i);
    _exit(0);
  }
  finish(child);
}

void program_probes(void) {
  char folder[NAME];
  int session = open_session(folder);
  if (session < 0) return;
  unsigned long address = (unsigned long)(uintptr_t)probed;
  switch (random_below(4)) {
    case 0:
      write_line(session, "event /bin/stress:%lx:probed\n", address);
      break;
    case 1:
      write_line(session, "watch memory\n");
      break;
    case 2:
      write_line(session, "count /bin/stress:%lx:probed pipe*\n", address);
      break;
    default:
      write_line(session, "count /bin/stress:%lx:probed\n", address);
  }
  use_session(session, folder, random_one_in(4) ? memory : call_probed);
  close(session);
}

/* ---- Traces. */

static bool any_trace(char* path) {
  char name[256];
  if (!any_entry("#mem/kmemtrace", name, sizeof name)) return false;
  snprintf(path, NAME, "#mem/kmemtrace/%s", name);
  return true;
}

void traces(void) {
  char path[NAME];
  if (random_one_in(3) || !any_trace(path)) snprintf(path, sizeof path, CTL);
  switch (random_below(12)) {
    case 0:
      say(path, "start");
      break;
    case 1:
      say(path, random_one_in(2) ? "start" : "start frees");
      break;
    case 2:
      say(path, "start depth=%u", 1 + (unsigned)random_below(64));
      break;
    case 3:
      say(path, "start sample=%u", 1 + (unsigned)random_below(100000));
      break;
    case 4:
      say(path, "start min=%u max=%u", (unsigned)random_below(200),
          100 + (unsigned)random_below(10000));
      break;
    case 5:
    case 6:
      say(path, "stop");
      break;
    case 7:
      say(path, "stop\nreset");
      break;
    case 8:
      say(path, "reset");
      break;
    case 9:
      say(path, "mark");
      break;
    case 10:
      say(CTL, "limit %u", 4096u << random_below(13));
      break;
    default:
      say(CTL, random_one_in(8) ? "settle" : "reap");
  }
  if (random_one_in(2)) act();
}

void dumps(void) {
  char path[NAME];
  if (random_one_in(3))
    check_dump("#mem/tracedump", random_one_in(2));
  else if (any_trace(path))
    read_some(path);
}

void checks(void) {
  char path[NAME];
  if (!random_one_in(4) || !any_trace(path)) return;
  say(path, "check");
  act();
  if (random_one_in(2)) say(path, "scan");
  say(path, "nocheck");
}

/* Does activities in which kernel allocations fail. */
void failures(void) {
  pid_t child = spawn();
  if (child == 0) {
    for (int i = 0; i < 3; i++) {
      say("#debug/alloc", "failnext %u after=%u", 1 + (unsigned)random_below(4),
          (unsigned)random_below(60));
      act();
    }
    _exit(0);
  }
  finish(child);
}
