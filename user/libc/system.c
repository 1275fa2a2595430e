/* system. As POSIX requires, the process ignores SIGINT and SIGQUIT while the command runs, because
 * these signals are for the command. The calling thread blocks SIGCHLD, because the program did not
 * start this child itself. Several threads may call system at once. The first thread that enters
 * makes the process ignore SIGINT and SIGQUIT; the last thread that leaves restores the program's
 * actions. (musl's function leaves the signals ignored if two calls overlap.) */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/lock.h>
#include <sys/wait.h>
#include <unistd.h>

#include "start.h"

__LOCK_INIT(static, lock);
static unsigned callers;                 /* threads that are in system() */
static struct sigaction interrupt, quit; /* the program's actions for SIGINT and SIGQUIT */

static void ignore(void) {
  const struct sigaction ignored = {.sa_handler = SIG_IGN};
  __stele_lock(&lock);
  if (callers++ == 0) {
    sigaction(SIGINT, &ignored, &interrupt);
    sigaction(SIGQUIT, &ignored, &quit);
  }
  __stele_unlock(&lock);
}
static void put_back(void) {
  __stele_lock(&lock);
  if (--callers == 0) {
    sigaction(SIGINT, &interrupt, NULL);
    sigaction(SIGQUIT, &quit, NULL);
  }
  __stele_unlock(&lock);
}

int system(const char* command) {
  if (command == NULL) return 1;
  pthread_testcancel();
  int cancel_state, status = -1;
  sigset_t child_signal, before;
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
  sigemptyset(&child_signal);
  sigaddset(&child_signal, SIGCHLD);
  ignore();
  sigprocmask(SIG_BLOCK, &child_signal, &before);

  const pid_t child = __stele_fork();
  if (child == 0) {
    sigaction(SIGINT, &interrupt, NULL);
    sigaction(SIGQUIT, &quit, NULL);
    sigprocmask(SIG_SETMASK, &before, NULL);
    execl("/bin/sh", "sh", "-c", command, NULL);
    _exit(127);
  }
  if (child > 0) {
    while (waitpid(child, &status, 0) < 0) {
      if (errno == EINTR) continue;
      status = -1;
      break;
    }
  }
  const int error = errno;
  put_back();
  sigprocmask(SIG_SETMASK, &before, NULL);
  pthread_setcancelstate(cancel_state, NULL);
  errno = error;
  return status;
}
