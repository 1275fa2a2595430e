/* posix_spawn forks. The child applies the attributes, then the file actions in order, and calls
 * exec.
 *
 * The child has its own copy of the memory, so it cannot store its error in the caller's memory.
 * Instead it writes the error number to a pipe that a successful exec closes. The caller reads
 * either this number, or the end of the pipe, which means that the program runs. If a file action
 * uses the descriptor of the pipe's writing end, the child first moves that end to another
 * descriptor.
 *
 * posix_spawnattr_t and posix_spawn_file_actions_t are pointers in newlib's <spawn.h>; their init
 * functions allocate the structures below.
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

#include "start.h"

struct __posix_spawnattr {
  short flags; /* POSIX_SPAWN_* */
  pid_t group;
  sigset_t defaults, mask;
  int policy;
  struct sched_param parameters;
};

enum action_kind { ACTION_OPEN, ACTION_DUP2, ACTION_CLOSE, ACTION_CHDIR, ACTION_FCHDIR };

struct action {
  struct action* next;
  enum action_kind kind;
  int fd, from, flags;
  mode_t mode;
  const char* path; /* for ACTION_OPEN and ACTION_CHDIR; stored in memory after the structure */
};

struct __posix_spawn_file_actions {
  struct action *first, **end;
};

int posix_spawnattr_init(posix_spawnattr_t* attributes) {
  *attributes = calloc(1, sizeof **attributes);
  return *attributes == NULL ? ENOMEM : 0;
}
int posix_spawnattr_destroy(posix_spawnattr_t* attributes) {
  free(*attributes);
  *attributes = NULL;
  return 0;
}

#define ATTRIBUTE(name, type, field)                                                \
  int posix_spawnattr_get##name(const posix_spawnattr_t* attributes, type* value) { \
    *value = (*attributes)->field;                                                  \
    return 0;                                                                       \
  }
#define SETTER_BY_VALUE(name, type, field)                                   \
  int posix_spawnattr_set##name(posix_spawnattr_t* attributes, type value) { \
    (*attributes)->field = value;                                            \
    return 0;                                                                \
  }
#define SETTER_BY_POINTER(name, type, field)                                        \
  int posix_spawnattr_set##name(posix_spawnattr_t* attributes, const type* value) { \
    (*attributes)->field = *value;                                                  \
    return 0;                                                                       \
  }
ATTRIBUTE(flags, short, flags)
ATTRIBUTE(pgroup, pid_t, group)
ATTRIBUTE(sigdefault, sigset_t, defaults)
ATTRIBUTE(sigmask, sigset_t, mask)
ATTRIBUTE(schedpolicy, int, policy)
ATTRIBUTE(schedparam, struct sched_param, parameters)
SETTER_BY_VALUE(pgroup, pid_t, group)
SETTER_BY_VALUE(schedpolicy, int, policy)
SETTER_BY_POINTER(sigdefault, sigset_t, defaults)
SETTER_BY_POINTER(sigmask, sigset_t, mask)
SETTER_BY_POINTER(schedparam, struct sched_param, parameters)

int posix_spawnattr_setflags(posix_spawnattr_t* attributes, short flags) {
  if (flags & ~(POSIX_SPAWN_RESETIDS | POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSCHEDPARAM |
                POSIX_SPAWN_SETSCHEDULER | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK |
                POSIX_SPAWN_SETSID))
    return EINVAL;
  (*attributes)->flags = flags;
  return 0;
}

int posix_spawn_file_actions_init(posix_spawn_file_actions_t* actions) {
  *actions = malloc(sizeof **actions);
  if (*actions == NULL) return ENOMEM;
  (*actions)->first = NULL;
  (*actions)->end = &(*actions)->first;
  return 0;
}

int posix_spawn_file_actions_destroy(posix_spawn_file_actions_t* actions) {
  for (struct action* action = (*actions)->first; action != NULL;) {
    struct action* next = action->next;
    free(action);
    action = next;
  }
  free(*actions);
  *actions = NULL;
  return 0;
}

/* Appends a copy of the action `from`, with a copy of `path`. Returns 0, EBADF or ENOMEM. */
static int add(posix_spawn_file_actions_t* actions, struct action from, const char* path) {
  if (from.fd < 0 || from.from < 0) return EBADF;
  size_t size = strlen(path) + 1;
  struct action* action = malloc(sizeof *action + size);
  if (action == NULL) return ENOMEM;
  *action = from;
  action->next = NULL;
  action->path = memcpy(action + 1, path, size);
  *(*actions)->end = action;
  (*actions)->end = &action->next;
  return 0;
}

int posix_spawn_file_actions_addopen(posix_spawn_file_actions_t* actions, int fd, const char* path,
                                     int flags, mode_t mode) {
  return add(actions, (struct action){.kind = ACTION_OPEN, .fd = fd, .flags = flags, .mode = mode},
             path);
}
int posix_spawn_file_actions_adddup2(posix_spawn_file_actions_t* actions, int from, int fd) {
  return add(actions, (struct action){.kind = ACTION_DUP2, .fd = fd, .from = from}, "");
}
int posix_spawn_file_actions_addclose(posix_spawn_file_actions_t* actions, int fd) {
  return add(actions, (struct action){.kind = ACTION_CLOSE, .fd = fd}, "");
}
int posix_spawn_file_actions_addchdir(posix_spawn_file_actions_t* actions, const char* path) {
  return add(actions, (struct action){.kind = ACTION_CHDIR}, path);
}
int posix_spawn_file_actions_addfchdir(posix_spawn_file_actions_t* actions, int fd) {
  return add(actions, (struct action){.kind = ACTION_FCHDIR, .fd = fd}, "");
}
/* The names before POSIX.1-2024. */
int posix_spawn_file_actions_addchdir_np(posix_spawn_file_actions_t* actions, const char* path) {
  return posix_spawn_file_actions_addchdir(actions, path);
}
int posix_spawn_file_actions_addfchdir_np(posix_spawn_file_actions_t* actions, int fd) {
  return posix_spawn_file_actions_addfchdir(actions, fd);
}

/* Sets the attributes in the child. Returns 0 or an error number. */
static int apply_attributes(const struct __posix_spawnattr* attributes) {
  short flags = attributes->flags;
  if (flags & (POSIX_SPAWN_SETSCHEDPARAM | POSIX_SPAWN_SETSCHEDULER)) return ENOTSUP;
  if ((flags & POSIX_SPAWN_SETSID) && setsid() < 0) return errno;
  if ((flags & POSIX_SPAWN_SETPGROUP) && setpgid(0, attributes->group) < 0) return errno;
  if ((flags & POSIX_SPAWN_RESETIDS) && (setegid(getgid()) < 0 || seteuid(getuid()) < 0))
    return errno;
  if (flags & POSIX_SPAWN_SETSIGDEF) {
    struct sigaction default_action = {.sa_handler = SIG_DFL};
    for (int signal = 1; signal < NSIG; signal++) {
      if (!sigismember(&attributes->defaults, signal)) continue;
      if (signal == SIGKILL || signal == SIGSTOP) continue; /* always the default */
      if (sigaction(signal, &default_action, NULL) < 0) return errno;
    }
  }
  if ((flags & POSIX_SPAWN_SETSIGMASK) && sigprocmask(SIG_SETMASK, &attributes->mask, NULL) < 0)
    return errno;
  return 0;
}

/* Performs a file action in the child. Returns 0 or an error number. ACTION_DUP2 of a descriptor to
 * itself clears its FD_CLOEXEC, so that the program inherits it.
 */
static int apply(const struct action* action) {
  switch (action->kind) {
    case ACTION_OPEN: {
      int fd = open(action->path, action->flags, action->mode);
      if (fd < 0) return errno;
      if (fd == action->fd) return 0;
      if (dup2(fd, action->fd) < 0) return errno;
      close(fd);
      if (action->flags & O_CLOEXEC) fcntl(action->fd, F_SETFD, FD_CLOEXEC);
      return 0;
    }
    case ACTION_DUP2:
      if (action->fd != action->from) return dup2(action->from, action->fd) < 0 ? errno : 0;
      return fcntl(action->fd, F_SETFD, 0) < 0 ? errno : 0;
    case ACTION_CLOSE:
      close(action->fd); /* the descriptor may already be closed */
      return 0;
    case ACTION_CHDIR:
      return chdir(action->path) < 0 ? errno : 0;
    case ACTION_FCHDIR:
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
  if (attributes != NULL && *attributes != NULL) error = apply_attributes(*attributes);
  if (actions != NULL && *actions != NULL) {
    const struct action* action = (*actions)->first;
    for (; action != NULL && error == 0; action = action->next) {
      if (action->fd == report && action->kind != ACTION_FCHDIR) {
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
