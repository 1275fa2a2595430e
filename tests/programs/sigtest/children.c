/* A parent's information about its children. */
#include <sys/resource.h>

#include "sigtest.h"

static volatile sig_atomic_t count;
static siginfo_t last;
static void record(int signal, siginfo_t* info, void* context) {
  (void)signal, (void)context;
  last = *info;
  count++;
}

static int exits(void) {
  return 7;
}
static int sleeps(void) {
  while (pause() < 0) continue;
  return 0;
}

static void status_of_each_kind(void) {
  int status;
  siginfo_t info;
  handle(SIGCHLD, record, SA_RESTART);
  count = 0;
  pid_t child = start_child(exits);
  CHECK(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT) == 0 && info.si_pid == child &&
        info.si_code == CLD_EXITED && info.si_status == 7 && info.si_signo == SIGCHLD);
  CHECK(count == 1 && last.si_pid == child && last.si_code == CLD_EXITED && last.si_status == 7);
  CHECK(waitid(P_ALL, 0, &info, WEXITED) == 0 && info.si_pid == child);
  CHECK(waitid(P_PID, (id_t)child, &info, WEXITED) == -1 && errno == ECHILD);

  child = start_child(sleeps);
  info.si_pid = -1;
  CHECK(waitid(P_PID, (id_t)child, &info, WEXITED | WNOHANG) == 0 && info.si_pid == 0);
  CHECK(kill(child, SIGSTOP) == 0 && waitid(P_PID, (id_t)child, &info, WSTOPPED) == 0 &&
        info.si_code == CLD_STOPPED && info.si_status == SIGSTOP);
  CHECK(last.si_code == CLD_STOPPED && last.si_status == SIGSTOP);
  CHECK(waitpid(child, &status, WUNTRACED | WNOHANG) == 0);
  CHECK(kill(child, SIGCONT) == 0 && waitpid(child, &status, WCONTINUED) == child &&
        WIFCONTINUED(status) && !WIFSTOPPED(status) && !WIFSIGNALED(status) && !WIFEXITED(status));
  CHECK(last.si_code == CLD_CONTINUED && last.si_status == SIGCONT);
  CHECK(waitpid(child, &status, WCONTINUED | WNOHANG) == 0);
  CHECK(kill(child, SIGSTOP) == 0 && waitpid(child, &status, WUNTRACED) == child &&
        kill(child, SIGCONT) == 0 && waitid(P_PID, (id_t)child, &info, WCONTINUED) == 0 &&
        info.si_code == CLD_CONTINUED);
  CHECK(kill(child, SIGKILL) == 0 &&
        waitid(P_PGID, (id_t)getpgrp(), &info, WEXITED | WNOWAIT) == 0 &&
        info.si_code == CLD_KILLED && info.si_status == SIGKILL);
  struct rusage usage;
  CHECK(wait4(child, &status, 0, &usage) == child && WTERMSIG(status) == SIGKILL &&
        usage.ru_maxrss > 0 && usage.ru_nvcsw > 0);
  CHECK(waitid(P_PID, (id_t)child, &info, 0) == -1 && errno == EINVAL);
  CHECK(waitid((idtype_t)9, 0, &info, WEXITED) == -1 && errno == EINVAL);
  CHECK(waitpid(child, &status, 0x1000) == -1 && errno == EINVAL);

  handle(SIGCHLD, record, SA_NOCLDSTOP | SA_RESTART);
  child = start_child(sleeps);
  count = 0;
  kill(child, SIGSTOP);
  CHECK(waitpid(child, &status, WUNTRACED) == child && count == 0);
  kill(child, SIGCONT);
  CHECK(waitpid(child, &status, WCONTINUED) == child && count == 0);
  kill(child, SIGKILL);
  CHECK(status_of(child) == SIGKILL && count == 1);
}

void test_children(void) {
  status_of_each_kind();
  /* With SA_NOCLDWAIT children leave no zombies: waitpid gives ECHILD when the last child has
   * ended. */
  handle(SIGCHLD, record, SA_NOCLDWAIT | SA_RESTART);
  count = 0;
  for (int i = 0; i < 3; i++) start_child(exits);
  int status;
  while (waitpid(-1, &status, 0) < 0 && errno == EINTR) continue;
  CHECK(errno == ECHILD && count > 0);
  signal(SIGCHLD, SIG_DFL);
}
