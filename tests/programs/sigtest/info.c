/* Signal information: siginfo_t, queues, waiting for signals, and actions. */
#include "sigtest.h"

enum { MOST = 64 };
static siginfo_t seen[MOST];
static volatile sig_atomic_t count;

static void record(int signal, siginfo_t* info, void* context) {
  (void)signal, (void)context;
  if (count < MOST) seen[count] = *info;
  count++;
}

static int signals_parent(void) {
  union sigval value = {.sival_int = 77};
  return kill(getppid(), SIGUSR1) != 0 || sigqueue(getppid(), SIGUSR2, value) != 0;
}

static void sent_by_whom(void) {
  handle(SIGUSR1, record, 0);
  handle(SIGUSR2, record, 0);
  count = 0;
  CHECK(raise(SIGUSR1) == 0 && count == 1);
  CHECK(seen[0].si_signo == SIGUSR1 && seen[0].si_code == SI_USER && seen[0].si_pid == getpid() &&
        seen[0].si_uid == 0);
  block(SIGUSR1);
  block(SIGUSR2);
  count = 0;
  pid_t child = start_child(signals_parent);
  CHECK(status_of(child) == 0 && count == 0);
  sigset_t pending;
  CHECK(sigpending(&pending) == 0 && sigismember(&pending, SIGUSR1) &&
        sigismember(&pending, SIGUSR2) && !sigismember(&pending, SIGHUP));
  unblock(SIGUSR1);
  unblock(SIGUSR2);
  CHECK(count == 2 && seen[0].si_pid == child && seen[0].si_code == SI_USER);
  CHECK(seen[1].si_signo == SIGUSR2 && seen[1].si_code == SI_QUEUE && seen[1].si_pid == child &&
        seen[1].si_int == 77);
}

static void queues(void) {
  int low = SIGRTMIN, high = SIGRTMAX;
  union sigval value;
  handle(low, record, 0);
  handle(high, record, 0);
  block(low);
  block(high);
  count = 0;
  for (int i = 0; i < 3; i++) {
    value.sival_int = i;
    CHECK(sigqueue(getpid(), high, value) == 0);
    value.sival_int = 10 + i;
    CHECK(sigqueue(getpid(), low, value) == 0);
  }
  /* The loop waits for signals of two numbers. Signals of the lower number come first. Signals of
   * one number come in the order in which they were sent. */
  sigset_t none;
  sigemptyset(&none);
  sigset_t both = only(low);
  sigaddset(&both, high);
  siginfo_t info;
  for (int i = 0; i < 6; i++) {
    int expected = i < 3 ? low : high;
    CHECK(sigwaitinfo(&both, &info) == expected && info.si_code == SI_QUEUE &&
          info.si_int == (i < 3 ? 10 + i : i - 3));
  }
  int sent = 0;
  while (sigqueue(getpid(), low, value) == 0) sent++;
  CHECK(errno == EAGAIN && sent == sysconf(_SC_SIGQUEUE_MAX));
  CHECK(sigqueue(getpid(), SIGUSR1, value) == 0); /* SIGUSR1 needs no room in the queue */
  CHECK(kill(getpid(), low) == 0);
  count = 0;
  unblock(low);
  CHECK(count == sent + 1);
  sigset_t pending;
  CHECK(sigpending(&pending) == 0 && pending == none);

  /* When a signal becomes ignored, its pending instances are discarded. */
  block(low);
  block(SIGUSR1);
  sigqueue(getpid(), low, value);
  raise(SIGUSR1);
  signal(low, SIG_IGN);
  signal(SIGUSR1, SIG_IGN);
  CHECK(sigpending(&pending) == 0 && pending == none);
  unblock(low);
  unblock(high);
  unblock(SIGUSR1);
  handle(SIGUSR1, record, 0);
  CHECK(sigqueue(getpid(), 64, value) == -1 && errno == EINVAL);
  CHECK(sigqueue(31000, SIGUSR1, value) == -1 && errno == ESRCH);
  CHECK(sigqueue(getpid(), 0, value) == 0);
}

static int is_refused(void) {
  union sigval value = {.sival_int = 0};
  int queued = sigqueue(1, SIGRTMIN, value) == -1 && errno == EPERM;
  int killed = kill(1, SIGUSR1) == -1 && errno == EPERM;
  return !(queued && killed);
}

static int signals_soon(void) {
  pause_ms(30);
  return kill(getppid(), SIGUSR1);
}

static int ends(void) {
  return 0;
}

static void waits(void) {
  sigset_t set = only(SIGUSR1);
  siginfo_t info;
  struct timespec soon = {.tv_nsec = 10000000}, now = {0};
  block(SIGUSR1);
  CHECK(sigtimedwait(&set, &info, &now) == -1 && errno == EAGAIN);
  CHECK(sigtimedwait(&set, &info, &soon) == -1 && errno == EAGAIN);
  soon.tv_nsec = -1;
  CHECK(sigtimedwait(&set, &info, &soon) == -1 && errno == EINVAL);
  pid_t child = start_child(signals_soon);
  CHECK(sigwaitinfo(&set, &info) == SIGUSR1 && info.si_pid == child);
  CHECK(status_of(child) == 0);
  child = start_child(signals_soon);
  int taken = 0;
  CHECK(sigwait(&set, &taken) == 0 && taken == SIGUSR1);
  CHECK(status_of(child) == 0);
  /* A handler of another signal interrupts the wait. */
  set = only(SIGUSR2);
  unblock(SIGUSR1);
  child = start_child(signals_soon);
  count = 0;
  CHECK(sigwaitinfo(&set, NULL) == -1 && errno == EINTR && count == 1);
  CHECK(status_of(child) == 0);
  /* A process can wait for an ignored signal while the signal is blocked. */
  block(SIGCHLD);
  set = only(SIGCHLD);
  child = start_child(ends);
  CHECK(sigwaitinfo(&set, &info) == SIGCHLD && info.si_pid == child && info.si_code == CLD_EXITED &&
        info.si_status == 0);
  CHECK(status_of(child) == 0);
  unblock(SIGCHLD);
  /* No process can wait for SIGKILL. */
  set = only(SIGKILL);
  soon.tv_nsec = 1000000;
  CHECK(sigtimedwait(&set, NULL, &soon) == -1 && errno == EAGAIN);
}

static void actions(void) {
  struct sigaction action;
  handle(SIGUSR1, record, SA_RESETHAND);
  count = 0;
  raise(SIGUSR1);
  CHECK(sigaction(SIGUSR1, NULL, &action) == 0 && action.sa_handler == SIG_DFL && count == 1);
  CHECK(sigaction(SIGUSR1, NULL, NULL) == 0);
  CHECK(sigaction(SIGSTOP, NULL, &action) == 0);
  CHECK(sigaction(64, NULL, &action) == -1 && errno == EINVAL);
  CHECK(sigaction(0, NULL, &action) == -1 && errno == EINVAL);
  CHECK(signal(SIGKILL, SIG_IGN) == SIG_ERR && errno == EINVAL);
  CHECK(siginterrupt(SIGUSR1, 1) == 0 && signal(SIGUSR1, SIG_IGN) == SIG_DFL);
  CHECK(sigaction(SIGUSR1, NULL, &action) == 0 && !(action.sa_flags & SA_RESTART));
  CHECK(siginterrupt(SIGUSR1, 0) == 0 && siginterrupt(99, 0) == -1 && errno == EINVAL);
  CHECK(strcmp(strsignal(SIGINT), "Interrupt") == 0);
  handle(SIGUSR2, record, 0);
  count = 0;
  CHECK(sighold(SIGUSR2) == 0 && raise(SIGUSR2) == 0 && count == 0);
  CHECK(sigpause(SIGUSR2) == -1 && errno == EINTR && count == 1);
  CHECK(raise(SIGUSR2) == 0 && count == 1 && sigrelse(SIGUSR2) == 0 && count == 2);
  CHECK(sigset(SIGUSR2, SIG_HOLD) != SIG_HOLD && sigset(SIGUSR2, SIG_DFL) == SIG_HOLD);
  CHECK(sigignore(SIGUSR2) == 0 && raise(SIGUSR2) == 0 && sigset(SIGUSR2, SIG_DFL) == SIG_IGN);
  CHECK(sighold(64) == -1 && errno == EINVAL && sigpause(0) == -1 && errno == EINVAL);
  sigset_t set;
  CHECK(sigfillset(&set) == 0 && sigismember(&set, SIGRTMAX) == 1 && sigaddset(&set, 64) == -1 &&
        errno == EINVAL && sigdelset(&set, 40) == 0 && sigismember(&set, 40) == 0);
  signal(SIGUSR1, SIG_DFL);
  signal(SIGUSR2, SIG_DFL);
}

void test_info(void) {
  sent_by_whom();
  queues();
  CHECK(as_nobody(is_refused) == 0);
  waits();
  actions();
}
