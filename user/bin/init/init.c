/* Process 1: makes the namespace that programs expect, then runs a script or shells.
 *
 * If the initial archive has /etc/script (scripts/guest puts the file there), init runs this script
 * once. The script's standard output goes to the second serial port, and its standard error goes to
 * the third one. init then writes "status N" to the fourth port, where N is the script's exit
 * status as a shell gives it, and turns the machine off. Without /etc/script, init runs mksh on the
 * console, after a banner. When mksh ends, init starts it again in a new session.
 *
 * If the archive also has /etc/unreachable (scripts/guest --unreachable), init writes the contents
 * of #mem/unreachable to the fourth port after the status. If the file cannot be read, init writes
 * a line with the reason instead.
 *
 * Orphaned processes become children of process 1, which reaps them.
 *
 * When the script ends, the machine may have no free memory, because files and the kernel may hold
 * all of it. So before the script starts, init allocates everything that it needs to write the
 * status and to turn the machine off: init opens the files, and touches all of its own pages.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <stele.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tool/touch_pages.h"

#define SCRIPT "/etc/script"
#define CONSOLE "/dev/cons"
#define LOOK "/etc/unreachable"
#define BANNER                                                                             \
  "Stele: every cache of the kernel can be traced. `help` shows how to find what leaks.\n" \
  "`poweroff` ends the machine; `ctrl-a x` ends QEMU, if `make run` started it.\n"

static char* environment[] = {"PATH=/bin",        "HOME=/home", "TERM=vt100", "USER=root",
                              "ENV=/etc/profile", "TZ=UTC0",    NULL};

static void complain(const char* what, const char* which) {
  int error = errno;
  char line[512];
  int length = snprintf(line, sizeof line, "init: %s %s: %s\n", what, which, strerror(error));
  if (length > (int)sizeof line - 1) length = sizeof line - 1;
  write(STDERR_FILENO, line, (size_t)length);
}

static const struct {
  const char *source, *target;
  int flags;
} mounts[] = {
    {"#cons", "/dev", NS_REPLACE},
    {"#null", "/dev", NS_AFTER},
    {"#random", "/dev", NS_AFTER},
    {"#pty", "/dev", NS_AFTER},
    {"#fd", "/dev", NS_AFTER},
    {"#proc", "/proc", NS_REPLACE},
    {"#tmp", "/tmp", NS_REPLACE | NS_CREATE},
    {"#mem", "/mem", NS_REPLACE},
    {"#p9", "/host", NS_REPLACE | NS_CREATE},
};

static void make_namespace(void) {
  for (size_t i = 0; i < sizeof mounts / sizeof *mounts; i++) {
    if (ns_bind(mounts[i].source, mounts[i].target, mounts[i].flags) == 0) continue;
    /* The folder stays empty if this kernel or machine does not have the device. */
    if (errno != ENXIO && errno != ENODEV && errno != ENOENT)
      complain("cannot bind", mounts[i].source);
  }
}

/* Opens `path` as descriptor `wanted`, and closes the file that had this descriptor before. */
static int open_as(int wanted, const char* path, int flags) {
  int fd = open(path, flags);
  if (fd < 0) {
    complain("cannot open", path);
    return -1;
  }
  if (fd == wanted) return 0;
  int result = dup2(fd, wanted);
  close(fd);
  return result;
}

/* Opens the three standard files. If this process is a session leader, a terminal among them may
 * become its controlling terminal. */
static void open_standard(const char* in, const char* out, const char* error) {
  open_as(STDIN_FILENO, in, O_RDWR);
  open_as(STDOUT_FILENO, out, O_RDWR);
  open_as(STDERR_FILENO, error, O_RDWR);
}

/* Opens the console as the three standard files, but not as the process's controlling terminal. The
 * end of a session hangs up the console's open files, so this function is called again after each
 * session. */
static void open_console(void) {
  open_as(STDIN_FILENO, "#cons/cons", O_RDWR | O_NOCTTY);
  open_as(STDOUT_FILENO, "#cons/cons", O_RDWR | O_NOCTTY);
  open_as(STDERR_FILENO, "#cons/cons", O_RDWR | O_NOCTTY);
}

static int open_to_write(const char* path) {
  int fd = open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) complain("cannot open", path);
  return fd;
}

static void write_line(int fd, const char* line) {
  if (write(fd, line, strlen(line)) < 0) complain("cannot write", line);
}

static void write_unreachable(int to) {
  static char buffer[4096];
  int from = open("#mem/unreachable", O_RDONLY);
  ssize_t count = 0;
  while (from >= 0 && (count = read(from, buffer, sizeof buffer)) > 0)
    write(to, buffer, (size_t)count);
  if (from >= 0 && count == 0) return;
  snprintf(buffer, sizeof buffer, "unreachable: %s\n", strerror(errno));
  write_line(to, buffer);
}

#define PAGE 4096
#define STACK (4 * PAGE) /* more than the code after the script needs */

/* Makes the pages of the next STACK bytes of the stack present. After a fork, a write to these
 * pages needs memory, because they are copy-on-write until the child calls execve or ends. */
static void touch_stack(void) {
  volatile char stack[STACK];
  for (size_t i = 0; i < sizeof stack; i += PAGE) stack[i] = 0;
}

/* Waits until `child` has ended, and reaps all other children meanwhile. Returns the status of
 * `child` as a shell gives it. */
static int reap_until(pid_t child) {
  for (;;) {
    int status;
    pid_t ended = wait(&status);
    if (ended < 0 && errno == ECHILD) return 127;
    if (ended != child) continue;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  }
}

static int run_script(void) {
  pid_t child = fork();
  if (child == 0) {
    setsid();
    /* Puts the script in the console's foreground. Otherwise a `set -m` in the script would wait
     * for ever. */
    ioctl(STDIN_FILENO, TIOCSCTTY, 0);
    open_standard("#null/null", "#uart/1", "#uart/2");
    char* arguments[] = {"sh", SCRIPT, NULL};
    execve("/bin/sh", arguments, environment);
    complain("cannot run", "/bin/sh");
    _exit(127);
  }
  if (child < 0) {
    complain("cannot fork for", SCRIPT);
    return 127;
  }
  return reap_until(child);
}

static void run_shell(void) {
  pid_t child = fork();
  if (child == 0) {
    setsid();
    open_standard(CONSOLE, CONSOLE, CONSOLE);
    chdir("/home");
    write_line(STDOUT_FILENO, BANNER);
    char* arguments[] = {"mksh", "-i", NULL};
    execve("/bin/mksh", arguments, environment);
    complain("cannot run", "/bin/mksh");
    _exit(127);
  }
  if (child < 0) complain("cannot fork for", "/bin/mksh");
  /* Status 127: the shell could not be started. The pause gives people time to read the error. */
  if (reap_until(child) == 127) sleep(1);
  open_console();
}

int main(void) {
  umask(022);
  open_console();
  make_namespace();

  if (access(SCRIPT, F_OK) == 0) {
    int status = open_to_write("#uart/3"), power = open_to_write("#cons/power");
    int look = access(LOOK, F_OK) == 0;
    touch_all_pages();
    touch_stack();
    char line[32];
    snprintf(line, sizeof line, "status %d\n", run_script());
    write_line(status, line);
    if (look) write_unreachable(status);
    write_line(power, "off");
    for (;;) pause();
  }
  for (;;) run_shell();
}
