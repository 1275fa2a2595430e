/* Signals. Replaces newlib's header, whose siginfo_t and sigaction lack fields that POSIX requires.
 * Numbers and structures are the kernel's (abi/syscall.h; check.c compares). */
#ifndef _SYS_SIGNAL_H
#define _SYS_SIGNAL_H
#include <sys/_sigset.h>
#include <sys/_timespec.h>
#include <sys/cdefs.h>
#include <sys/features.h>
#include <sys/types.h>

#ifndef _SIGSET_T_DECLARED
#define _SIGSET_T_DECLARED
typedef __sigset_t sigset_t; /* bit s is signal s */
#endif

#define SIGHUP 1
#define SIGINT 2
#define SIGQUIT 3
#define SIGILL 4
#define SIGTRAP 5
#define SIGIOT 6
#define SIGABRT 6
#define SIGEMT 7
#define SIGFPE 8
#define SIGKILL 9
#define SIGBUS 10
#define SIGSEGV 11
#define SIGSYS 12
#define SIGPIPE 13
#define SIGALRM 14
#define SIGTERM 15
#define SIGURG 16
#define SIGSTOP 17
#define SIGTSTP 18
#define SIGCONT 19
#define SIGCHLD 20
#define SIGCLD 20
#define SIGTTIN 21
#define SIGTTOU 22
#define SIGIO 23
#define SIGPOLL SIGIO
#define SIGXCPU 24
#define SIGXFSZ 25
#define SIGVTALRM 26
#define SIGPROF 27
#define SIGWINCH 28
#define SIGLOST 29
#define SIGUSR1 30
#define SIGUSR2 31
#define SIGRTMIN 32
#define SIGRTMAX 62 /* 63 is pthread_cancel's */
#define NSIG 63
#define _NSIG NSIG

typedef void (*_sig_func_ptr)(int);

#define SIGEV_NONE 1
#define SIGEV_SIGNAL 2
#define SIGEV_THREAD 3 /* refused: ENOTSUP */

union sigval {
  int sival_int;
  void* sival_ptr;
};

struct sigevent {
  int sigev_notify;
  int sigev_signo;
  union sigval sigev_value;
  void (*sigev_notify_function)(union sigval);
  void* sigev_notify_attributes;
};

/* Fields that the signal's si_code does not use are 0. */
typedef struct {
  int si_signo;
  int si_code;
  int si_errno;
  int si_status; /* for a child: exit code or signal */
  pid_t si_pid;  /* PID of the sender, or of the child */
  uid_t si_uid;
  void* si_addr; /* for a fault: the address that faulted */
  union sigval si_value;
  int si_overrun; /* for a timer: its overrun count */
  int si_timerid;
} siginfo_t;
#define si_int si_value.sival_int
#define si_ptr si_value.sival_ptr

#define SI_USER 0
#define SI_KERNEL 0x80
#define SI_QUEUE (-1)
#define SI_TIMER (-2)
#define SI_MESGQ (-3)
#define SI_ASYNCIO (-4)
#define SI_TKILL (-6)

#define ILL_ILLOPC 1
#define ILL_ILLOPN 2
#define ILL_ILLADR 3
#define ILL_ILLTRP 4
#define ILL_PRVOPC 5
#define ILL_PRVREG 6
#define ILL_COPROC 7
#define ILL_BADSTK 8
#define FPE_INTDIV 1
#define FPE_INTOVF 2
#define FPE_FLTDIV 3
#define FPE_FLTOVF 4
#define FPE_FLTUND 5
#define FPE_FLTRES 6
#define FPE_FLTINV 7
#define FPE_FLTSUB 8
#define SEGV_MAPERR 1
#define SEGV_ACCERR 2
#define BUS_ADRALN 1
#define BUS_ADRERR 2
#define BUS_OBJERR 3
#define TRAP_BRKPT 1
#define TRAP_TRACE 2
#define CLD_EXITED 1
#define CLD_KILLED 2
#define CLD_DUMPED 3
#define CLD_TRAPPED 4
#define CLD_STOPPED 5
#define CLD_CONTINUED 6

#define SA_NOCLDSTOP 0x1
#define SA_SIGINFO 0x2
#define SA_ONSTACK 0x4
#define SA_RESTART 0x10
#define SA_NODEFER 0x20
#define SA_RESETHAND 0x40
#define SA_NOCLDWAIT 0x80
#define SA_NOMASK SA_NODEFER
#define SA_ONESHOT SA_RESETHAND

struct sigaction {
  union {
    _sig_func_ptr __handler;
    void (*__sigaction)(int, siginfo_t*, void*);
  } __action;
  sigset_t sa_mask;
  int sa_flags;
};
#define sa_handler __action.__handler
#define sa_sigaction __action.__sigaction

#define SIG_SETMASK 0
#define SIG_BLOCK 1
#define SIG_UNBLOCK 2

#define SIG_HOLD ((_sig_func_ptr)2) /* only for sigset: blocks the signal */

#define SS_ONSTACK 0x1
#define SS_DISABLE 0x2
#define MINSIGSTKSZ 2048
#define SIGSTKSZ 8192
typedef struct sigaltstack {
  void* ss_sp;
  int ss_flags;
  size_t ss_size;
} stack_t;

__BEGIN_DECLS
int kill(pid_t, int);
int sigaction(int, const struct sigaction*, struct sigaction*);
int sigaddset(sigset_t*, int);
int sigdelset(sigset_t*, int);
int sigemptyset(sigset_t*);
int sigfillset(sigset_t*);
int sigismember(const sigset_t*, int);
int sigpending(sigset_t*);
int sigprocmask(int, const sigset_t*, sigset_t*);
int pthread_kill(pthread_t, int);
int pthread_sigmask(int, const sigset_t*, sigset_t*);
int sigsuspend(const sigset_t*);
int sigwait(const sigset_t*, int*);
int sigqueue(pid_t, int, union sigval);
int sigtimedwait(const sigset_t*, siginfo_t*, const struct timespec*);
int sigwaitinfo(const sigset_t*, siginfo_t*);
int killpg(pid_t, int);
int sigaltstack(const stack_t* __restrict, stack_t* __restrict);
int sighold(int);
int sigignore(int);
int siginterrupt(int, int);
int sigpause(int);
int sigrelse(int);
_sig_func_ptr sigset(int, _sig_func_ptr);
void psiginfo(const siginfo_t*, const char*);
__END_DECLS

#include <sys/ucontext.h>

/* Some programs include <sys/signal.h> instead of <signal.h>. */
#ifndef _SIGNAL_H_
#include <signal.h>
#endif
#endif
