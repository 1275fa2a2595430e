/* Signals. A handler returns to __stele_restore, which asks the kernel to go on where the signal
 * struck. */
#include <errno.h>
#include <signal.h>
#include <unistd.h>

#include "syscall.h"

_Static_assert(ABI_SYS_sigreturn == 49, "the number in __stele_restore");
__asm__(
    ".text\n"
    ".type __stele_restore, @function\n"
    "__stele_restore:\n"
    "  movl $49, %eax\n"
    "  syscall\n"
    "  hlt\n"
    ".size __stele_restore, . - __stele_restore\n");
extern char __stele_restore[];

int sigaction(int signal, const struct sigaction* action, struct sigaction* old) {
  struct abi_sigaction to, from;
  if (action != NULL) {
    to = (struct abi_sigaction){
        .handler = (uint64_t)action->sa_handler,
        .mask = action->sa_mask,
        .flags = (uint64_t)action->sa_flags,
        .restorer = (uint64_t)__stele_restore,
    };
  }
  if (SYSCALL3(sigaction, signal, action != NULL ? &to : NULL, old != NULL ? &from : NULL) < 0)
    return -1;
  if (old != NULL) {
    old->sa_handler = (_sig_func_ptr)from.handler;
    old->sa_mask = from.mask;
    old->sa_flags = (int)from.flags;
  }
  return 0;
}

_sig_func_ptr signal(int signal, _sig_func_ptr handler) {
  struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART}, old;
  return sigaction(signal, &action, &old) < 0 ? SIG_ERR : old.sa_handler;
}

int sigprocmask(int how, const sigset_t* set, sigset_t* old) {
  return (int)SYSCALL3(sigprocmask, how, set, old);
}
int sigsuspend(const sigset_t* mask) {
  return (int)SYSCALL1(sigsuspend, mask);
}

int pause(void) {
  sigset_t mask;
  if (sigprocmask(SIG_SETMASK, NULL, &mask) < 0) return -1;
  return sigsuspend(&mask);
}

int kill(pid_t pid, int signal) {
  return (int)SYSCALL2(kill, pid, signal);
}

int killpg(pid_t group, int signal) {
  if (group < 0) {
    errno = EINVAL;
    return -1;
  }
  return kill(-group, signal);
}

int raise(int signal) {
  return kill(getpid(), signal);
}
