/* posix_spawn forks. The child applies the attributes, then the file actions in order, and calls
 * exec.
 *
 * The child has its own copy of the memory, so it cannot store its error in the caller's memory.
 * Instead it writes the error number to a pipe that a successful exec closes. The caller reads
 * either this number, or the end of the pipe, which means that the program runs. If a file action
 * uses the descriptor of the pipe's writing end, the child first moves that end to another
 * descriptor.
 *
 * musl has the functions of attributes and of file actions (musl.mk). posix_spawnattr_t has the
 * attributes. posix_spawn_file_actions_t has a list of musl's fdop structures; the last action is
 * the first in the list.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fdop.h"
#include "start.h"

/* musl's functions of scheduling return ENOSYS. */
int posix_spawnattr_getschedpolicy(const posix_spawnattr_t* attributes, int* policy) {
  *policy = attributes->__pol;
  return 0;
}
int posix_spawnattr_setschedpolicy(posix_spawnattr_t* attributes, int policy) {
  attributes->__pol = policy;
  return 0;
}
int posix_spawnattr_getschedparam(const posix_spawnattr_t* attributes,
                                  struct sched_param* parameters) {
  parameters->sched_priority = attributes->__prio;
  return 0;
}
int posix_spawnattr_setschedparam(posix_spawnattr_t* attributes,
                                  const struct sched_param* parameters) {
  attributes->__prio = parameters->sched_priority;
  return 0;
}

/* The names of POSIX.1-2024; musl has the older names. */
int posix_spawn_file_actions_addchdir(posix_spawn_file_actions_t* actions, const char* path) {
  return posix_spawn_file_actions_addchdir_np(actions, path);
}
int posix_spawn_file_actions_addfchdir(posix_spawn_file_actions_t* actions, int fd) {
  return posix_spawn_file_actions_addfchdir_np(actions, fd);
}

/* Sets the attributes in the child. Returns 0 or an error number. */
static int apply_attributes(const posix_spawnattr_t* attributes) {
  int flags = attributes->__flags;
  if (flags & (POSIX_SPAWN_SETSCHEDPARAM | POSIX_SPAWN_SETSCHEDULER)) return ENOTSUP;
  if ((flags & POSIX_SPAWN_SETSID) && setsid() < 0) return errno;
  if ((flags & POSIX_SPAWN_SETPGROUP) && setpgid(0, attributes->__pgrp) < 0) return errno;
  if ((flags & POSIX_SPAWN_RESETIDS) && (setegid(getgid()) < 0 || seteuid(getuid()) < 0))
    return errno;
  if (flags & POSIX_SPAWN_SETSIGDEF) {
    struct sigaction default_action = {.sa_handler = SIG_DFL};
    for (int signal = 1; signal < NSIG; signal++) {
      if (!sigismember(&attributes->__def, signal)) continue;
      if (signal == SIGKILL || signal == SIGSTOP) continue; /* always the default */
      if (sigaction(signal, &default_action, NULL) < 0) return errno;
    }
  }
  if ((flags & POSIX_SPAWN_SETSIGMASK) && sigprocmask(SIG_SETMASK, &attributes->__mask, NULL) < 0)
    return errno;
  return 0;
}

/* Performs a file action in the child. Returns 0 or an error number. FDOP_DUP2 of a descriptor to
 * itself clears its FD_CLOEXEC, so that the program inherits it.
 */
static int apply(const struct fdop* action) {
  switch (action->cmd) {
    case FDOP_OPEN: {
      int fd = open(action->path, action->oflag, action->mode);
      if (fd < 0) return errno;
      if (fd == action->fd) return 0;
      if (dup2(fd, action->fd) < 0) return errno;
      close(fd);
      if (action->oflag & O_CLOEXEC) fcntl(action->fd, F_SETFD, FD_CLOEXEC);
      return 0;
    }
    case FDOP_DUP2:
      if (action->fd != action->srcfd) return dup2(action->srcfd, action->fd) < 0 ? errno : 0;
      return fcntl(action->fd, F_SETFD, 0) < 0 ? errno : 0;
    case FDOP_CLOSE:
      close(action->fd); /* the descriptor may already be closed */
      return 0;
    case FDOP_CHDIR:
      return chdir(action->path) < 0 ? errno : 0;
    case FDOP_FCHDIR:
      return fchdir(action->fd) < 0 ? errno : 0;
  }
  return EINVAL;
}

typedef int exec_function(const char* file, char* const argv[], char* const envp[]);

static _Noreturn void child(int report, const char* file, exec_function* exec,
                            const posix_spawn_file_actions_t* actions,
                            const posix_spawnattr_t* attributes, char* const argv[],
                            char* const envp[]) {
  int error = 0;
  if (attributes != NULL) error = apply_attributes(attributes);
  if (actions != NULL && actions->__actions != NULL) {
    const struct fdop* action = actions->__actions;
    while (action->next != NULL) action = action->next;
    for (; action != NULL && error == 0; action = action->prev) {
      if (action->fd == report && action->cmd != FDOP_FCHDIR) {
        int moved = fcntl(report, F_DUPFD, 0);
        if (moved < 0 || fcntl(moved, F_SETFD, FD_CLOEXEC) < 0) {
          error = errno;
          break;
        }
        close(report);
        report = moved;
      }
      error = apply(action);
    }
  }
  if (error == 0) {
    exec(file, argv, envp);
    error = errno;
  }
  write(report, &error, sizeof error);
  _exit(127);
}

static int spawn(pid_t* pid, const char* file, exec_function* exec,
                 const posix_spawn_file_actions_t* actions, const posix_spawnattr_t* attributes,
                 char* const argv[], char* const envp[]) {
  int ends[2], cancel_state;
  if (pipe2(ends, O_CLOEXEC) < 0) return errno;
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
  pid_t made = __stele_fork();
  if (made == 0) {
    close(ends[0]);
    child(ends[1], file, exec, actions, attributes, argv, envp);
  }
  int error = made < 0 ? errno : 0;
  close(ends[1]);
  if (made > 0) {
    ssize_t got;
    do {
      got = read(ends[0], &error, sizeof error);
    } while (got < 0 && errno == EINTR);
    if (got != (ssize_t)sizeof error) error = 0;
    if (error != 0) {
      while (waitpid(made, NULL, 0) < 0 && errno == EINTR) continue;
    }
  }
  close(ends[0]);
  pthread_setcancelstate(cancel_state, NULL);
  if (error == 0 && pid != NULL) *pid = made;
  return error;
}

int posix_spawn(pid_t* pid, const char* path, const posix_spawn_file_actions_t* actions,
                const posix_spawnattr_t* attributes, char* const argv[], char* const envp[]) {
  return spawn(pid, path, execve, actions, attributes, argv, envp);
}
int posix_spawnp(pid_t* pid, const char* file, const posix_spawn_file_actions_t* actions,
                 const posix_spawnattr_t* attributes, char* const argv[], char* const envp[]) {
  return spawn(pid, file, execvpe, actions, attributes, argv, envp);
}
