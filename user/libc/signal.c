/* Signals. A handler returns to __stele_restore, which makes the kernel resume the interrupted
 * code. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cancel.h"

_Static_assert(ABI_SYS_sigreturn == 49, "the number in __stele_restore");
__asm__(
    ".text\n"
    ".globl __stele_restore\n"
    ".type __stele_restore, @function\n"
    "__stele_restore:\n"
    "  movl $49, %eax\n"
    "  syscall\n"
    "  hlt\n"
    ".size __stele_restore, . - __stele_restore\n");
extern char __stele_restore[];

int sigaction(int signal, const struct sigaction* action, struct sigaction* old) {
  struct abi_sigaction to, from;
  if (signal >= NSIG) {
    errno = EINVAL;
    return -1;
  }
  if (action != NULL) {
    to = (struct abi_sigaction){
        .handler = (uint64_t)action->sa_handler,
        .mask = action->sa_mask & ~CANCEL_MASK,
        .flags = (uint64_t)action->sa_flags,
        .restorer = (uint64_t)__stele_restore,
    };
  }
  if (SYSCALL(sigaction, signal, action != NULL ? &to : NULL, old != NULL ? &from : NULL) < 0)
    return -1;
  if (old != NULL) {
    old->sa_handler = (_sig_func_ptr)from.handler;
    old->sa_mask = from.mask;
    old->sa_flags = (int)from.flags;
  }
  return 0;
}

/* Signals whose handlers interrupt system calls instead of restarting them (siginterrupt). */
static sigset_t interrupting;

_sig_func_ptr signal(int signal, _sig_func_ptr handler) {
  int restarts = signal < 0 || signal >= NSIG || !(interrupting & 1UL << signal);
  struct sigaction action = {.sa_handler = handler, .sa_flags = restarts ? SA_RESTART : 0}, old;
  return sigaction(signal, &action, &old) < 0 ? SIG_ERR : old.sa_handler;
}

int siginterrupt(int signal, int interrupts) {
  struct sigaction action;
  if (sigaction(signal, NULL, &action) < 0) return -1;
  if (interrupts) {
    action.sa_flags &= ~SA_RESTART;
    __atomic_fetch_or(&interrupting, 1UL << signal, __ATOMIC_RELAXED);
  } else {
    action.sa_flags |= SA_RESTART;
    __atomic_fetch_and(&interrupting, ~(1UL << signal), __ATOMIC_RELAXED);
  }
  return sigaction(signal, &action, NULL);
}

/* --- Sets. */

static int check_number(int signal) {
  if (signal > 0 && signal < NSIG) return 0;
  errno = EINVAL;
  return -1;
}
int sigemptyset(sigset_t* set) {
  *set = 0;
  return 0;
}
int sigfillset(sigset_t* set) {
  *set = ~((sigset_t)1 | CANCEL_MASK); /* there is no signal 0 */
  return 0;
}
int sigaddset(sigset_t* set, int signal) {
  if (check_number(signal) < 0) return -1;
  *set |= 1UL << signal;
  return 0;
}
int sigdelset(sigset_t* set, int signal) {
  if (check_number(signal) < 0) return -1;
  *set &= ~(1UL << signal);
  return 0;
}
int sigismember(const sigset_t* set, int signal) {
  return check_number(signal) < 0 ? -1 : (int)(*set >> signal & 1);
}

/* --- Masks, and waiting. */

/* Removes the signal of pthread_cancel from the set, because a program must not block this signal.
 * A program that sets all bits itself, without sigfillset, would otherwise block the signal.
 */
int sigprocmask(int how, const sigset_t* set, sigset_t* old) {
  const sigset_t others = set != NULL ? *set & ~CANCEL_MASK : 0;
  return (int)SYSCALL(sigprocmask, how, set != NULL ? &others : NULL, old);
}
int pthread_sigmask(int how, const sigset_t* set, sigset_t* old) {
  const sigset_t others = set != NULL ? *set & ~CANCEL_MASK : 0;
  return (int)-stele_call(ABI_SYS_sigprocmask, how, (long)(set != NULL ? &others : NULL), (long)old,
                          0, 0, 0);
}
int sigsuspend(const sigset_t* mask) {
  const sigset_t others = *mask & ~CANCEL_MASK;
  return (int)CANCELLABLE1(sigsuspend, &others);
}

int sigpending(sigset_t* set) {
  return (int)SYSCALL(sigpending, set);
}
int sigtimedwait(const sigset_t* set, siginfo_t* info, const struct timespec* timeout) {
  const sigset_t others = *set & ~CANCEL_MASK;
  return (int)CANCELLABLE3(sigtimedwait, &others, info, timeout);
}
int sigwaitinfo(const sigset_t* set, siginfo_t* info) {
  return sigtimedwait(set, info, NULL);
}
/* Returns an error number; never EINTR. */
int sigwait(const sigset_t* set, int* signal) {
  int taken;
  do {
    taken = sigwaitinfo(set, NULL);
  } while (taken < 0 && errno == EINTR);
  if (taken < 0) return errno;
  *signal = taken;
  return 0;
}

int sigaltstack(const stack_t* restrict stack, stack_t* restrict old) {
  return (int)SYSCALL(sigaltstack, stack, old);
}

int pause(void) {
  sigset_t mask;
  if (sigprocmask(SIG_SETMASK, NULL, &mask) < 0) return -1;
  return sigsuspend(&mask);
}

/* --- The older calls on one signal (XSI). */

static int change_mask(int how, int signal, sigset_t* old) {
  sigset_t set = 0;
  return sigaddset(&set, signal) < 0 ? -1 : sigprocmask(how, &set, old);
}
int sighold(int signal) {
  return change_mask(SIG_BLOCK, signal, NULL);
}
int sigrelse(int signal) {
  return change_mask(SIG_UNBLOCK, signal, NULL);
}
int sigignore(int number) {
  return signal(number, SIG_IGN) == SIG_ERR ? -1 : 0;
}
int sigpause(int signal) {
  sigset_t mask;
  if (sigprocmask(SIG_SETMASK, NULL, &mask) < 0 || sigdelset(&mask, signal) < 0) return -1;
  return sigsuspend(&mask);
}
_sig_func_ptr sigset(int signal, _sig_func_ptr handler) {
  struct sigaction action = {.sa_handler = handler}, old;
  sigset_t mask;
  int holds = handler == SIG_HOLD;
  if (sigaction(signal, holds ? NULL : &action, &old) < 0 ||
      change_mask(holds ? SIG_BLOCK : SIG_UNBLOCK, signal, &mask) < 0)
    return SIG_ERR;
  return sigismember(&mask, signal) ? SIG_HOLD : old.sa_handler;
}

/* --- Sending. */

int sigqueue(pid_t pid, int signal, union sigval value) {
  return (int)SYSCALL(sigqueue, pid, signal, value.sival_ptr);
}

int kill(pid_t pid, int signal) {
  return (int)SYSCALL(kill, pid, signal);
}

int killpg(pid_t group, int signal) {
  if (group < 0) {
    errno = EINVAL;
    return -1;
  }
  return kill(-group, signal);
}

void psignal(int signal, const char* message) {
  int has_message = message != NULL && *message != '\0';
  fprintf(stderr, "%s%s%s\n", has_message ? message : "", has_message ? ": " : "",
          strsignal(signal));
}
void psiginfo(const siginfo_t* info, const char* message) {
  psignal(info->si_signo, message);
}
