/* abort. Replaces newlib's, which fails if SIGABRT is blocked or ignored. */
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

/* Runs the program's handler of SIGABRT, if it has one. The process ends even if the handler
 * returns or the signal is ignored or blocked. */
void abort(void) {
  sigset_t only;
  sigemptyset(&only);
  sigaddset(&only, SIGABRT);
  sigprocmask(SIG_UNBLOCK, &only, NULL);
  raise(SIGABRT);
  signal(SIGABRT, SIG_DFL);
  sigprocmask(SIG_UNBLOCK, &only, NULL);
  raise(SIGABRT);
  _exit(127);
}
