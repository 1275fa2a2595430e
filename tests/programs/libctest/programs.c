/* posix_spawn and the exec family. */
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

extern char** environ;

#define FOLDER "/tmp/libctest-programs"

/* Returns the contents of the open file `fd` from its start, as a string of at most 255 bytes. */
static const char* text_of(int fd) {
  static char text[256];
  ssize_t got = pread(fd, text, sizeof text - 1, 0);
  text[got < 0 ? 0 : got] = '\0';
  return text;
}

static void write_file(const char* path, const char* text, mode_t mode) {
  int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, mode);
  CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) && close(fd) == 0);
}

static void spawning(void) {
  pid_t child = 0;
  char* arguments[] = {"sh", "-c", "exit $(($# + 20))", "sh", "a", "b", NULL};
  CHECK(posix_spawnp(&child, "sh", NULL, NULL, arguments, environ) == 0 &&
        status_of(child) == 22 << 8);
  CHECK(posix_spawn(&child, "/bin/nosuch", NULL, NULL, arguments, environ) == ENOENT);
  CHECK(posix_spawnp(&child, "nosuch", NULL, NULL, arguments, environ) == ENOENT);
  CHECK(wait(NULL) == -1 && errno == ECHILD); /* the failed calls leave no child */

  /* File actions run in order. Standard output becomes the file; then standard error becomes a
   * duplicate of standard output. */
  int out = open(FOLDER "/out", O_RDWR | O_CREAT, 0600);
  posix_spawn_file_actions_t actions;
  CHECK(posix_spawn_file_actions_init(&actions) == 0);
  CHECK(posix_spawn_file_actions_addopen(&actions, 1, FOLDER "/out", O_WRONLY, 0) == 0);
  CHECK(posix_spawn_file_actions_adddup2(&actions, 1, 2) == 0);
  CHECK(posix_spawn_file_actions_addclose(&actions, 0) == 0);
  CHECK(posix_spawn_file_actions_addclose(&actions, -1) == EBADF);
  CHECK(posix_spawn_file_actions_addchdir(&actions, FOLDER) == 0);
  char* script[] = {"sh", "-c", "echo one; echo two >&2; pwd; read x <&0 || echo closed", NULL};
  CHECK(posix_spawn(&child, "/bin/sh", &actions, NULL, script, environ) == 0);
  status_of(child);
  const char* text = text_of(out);
  CHECK(strncmp(text, "one\ntwo\n" FOLDER "\n", 8 + sizeof FOLDER) == 0);
  CHECK(strstr(text, "closed\n") != NULL);
  close(out);

  /* The actions replace every low descriptor. One of these is the descriptor through which the
   * child reports an error of exec. The error must arrive nevertheless. */
  for (int fd = 3; fd < 12; fd++) {
    CHECK(posix_spawn_file_actions_adddup2(&actions, 1, fd) == 0);
  }
  CHECK(posix_spawn(&child, "/bin/nosuch", &actions, NULL, script, environ) == ENOENT);
  CHECK(posix_spawn_file_actions_addopen(&actions, 0, FOLDER "/nosuch", O_RDONLY, 0) == 0);
  CHECK(posix_spawn(&child, "/bin/sh", &actions, NULL, script, environ) == ENOENT);
  CHECK(posix_spawn_file_actions_destroy(&actions) == 0);

  /* Attributes: the child's process group, default actions of signals, and signal mask. */
  posix_spawnattr_t attributes;
  sigset_t set, old;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  signal(SIGTERM, SIG_IGN);
  sigprocmask(SIG_BLOCK, &set, &old);
  CHECK(posix_spawnattr_init(&attributes) == 0);
  CHECK(posix_spawnattr_setflags(&attributes, 0x4000) == EINVAL);
  CHECK(posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF |
                                                  POSIX_SPAWN_SETSIGMASK) == 0);
  CHECK(posix_spawnattr_setpgroup(&attributes, 0) == 0);
  CHECK(posix_spawnattr_setsigdefault(&attributes, &set) == 0);
  CHECK(posix_spawnattr_setsigmask(&attributes, &old) == 0);
  char* killed[] = {"sh", "-c", "kill -TERM $$; exit 3", NULL};
  CHECK(posix_spawn(&child, "/bin/sh", NULL, NULL, killed, environ) == 0 &&
        status_of(child) == 3 << 8);
  CHECK(posix_spawn(&child, "/bin/sh", NULL, &attributes, killed, environ) == 0 &&
        status_of(child) == SIGTERM);
  char* sleeper[] = {"sleep", "100", NULL};
  CHECK(posix_spawnp(&child, "sleep", NULL, &attributes, sleeper, environ) == 0 &&
        getpgid(child) == child && kill(-child, SIGKILL) == 0 && status_of(child) == SIGKILL);
  CHECK(posix_spawnattr_destroy(&attributes) == 0);
  sigprocmask(SIG_SETMASK, &old, NULL);
  signal(SIGTERM, SIG_DFL);
}

/* Gives the wait status of a child that makes `call`, the call of an exec function. If exec fails,
 * the child's exit code is errno. */
#define STATUS_OF_EXEC(call) \
  ({                         \
    pid_t child = fork();    \
    if (child == 0) {        \
      call;                  \
      _exit(errno);          \
    }                        \
    status_of(child);        \
  })

static void executing(void) {
  /* Only the functions that search PATH run a file without "#!" as a script. */
  write_file(FOLDER "/script", "exit $(($# + 40))\n", 0755);
  write_file(FOLDER "/interpreted", "#!/bin/sh\nexit 9\n", 0755);
  write_file(FOLDER "/denied", "exit 1\n", 0644);
  char* arguments[] = {"x", "1", "2", NULL};
  char* environment[] = {"COLOUR=green", NULL};
  CHECK(STATUS_OF_EXEC(execvp(FOLDER "/script", arguments)) == 42 << 8);
  CHECK(STATUS_OF_EXEC(execv(FOLDER "/script", arguments)) == ENOEXEC << 8);
  CHECK(STATUS_OF_EXEC(execlp(FOLDER "/script", "x", "1", (char*)NULL)) == 41 << 8);
  CHECK(STATUS_OF_EXEC(execl(FOLDER "/interpreted", "x", (char*)NULL)) == 9 << 8);
  CHECK(STATUS_OF_EXEC(execle("/bin/sh", "sh", "-c", "[ $COLOUR = green ] && exit 5", (char*)NULL,
                              environment)) == 5 << 8);
  char* command[] = {"sh", "-c", "[ $COLOUR = green ] && exit 6", NULL};
  CHECK(STATUS_OF_EXEC(execvpe("sh", command, environment)) == 6 << 8);
  CHECK(STATUS_OF_EXEC(fexecve(open("/bin/sh", O_RDONLY), command, environment)) == 6 << 8);
  CHECK(STATUS_OF_EXEC((setenv("PATH", "/nosuch::" FOLDER, 1), execlp("script", "x", NULL))) ==
        40 << 8);
  CHECK(STATUS_OF_EXEC((setenv("PATH", FOLDER, 1), execlp("denied", "x", NULL))) == EACCES << 8);
  CHECK(STATUS_OF_EXEC((setenv("PATH", FOLDER, 1), execlp("sh", "x", NULL))) == ENOENT << 8);
  CHECK(STATUS_OF_EXEC(execlp("", "x", NULL)) == ENOENT << 8);
  CHECK(STATUS_OF_EXEC(execl("/usr/bin/env", "env", "sh", "-c", "exit 7", NULL)) == 7 << 8);
}

void programs(void) {
  mkdir(FOLDER, 0755);
  spawning();
  executing();
  unlink(FOLDER "/out");
  unlink(FOLDER "/script");
  unlink(FOLDER "/interpreted");
  unlink(FOLDER "/denied");
  CHECK(rmdir(FOLDER) == 0);
}
