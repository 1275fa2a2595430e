/* The kernel's numbers and structures must be newlib's: nothing here translates them. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stele.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>

#include "syscall.h"

#define SAME(ours, kernels) _Static_assert((ours) == (kernels), #ours " differs from " #kernels)
#define SAME_ERROR(name, value, message) SAME(name, value);
#define SAME_SIGNAL(name, value) SAME(SIG##name, value);

ABI_ERRNOS(SAME_ERROR)
ABI_SIGNALS(SAME_SIGNAL)
SAME(NSIG, ABI_SIGNAL_COUNT);
SAME(SIG_SETMASK, 0);
SAME(SIG_BLOCK, 1);
SAME(SIG_UNBLOCK, 2);
SAME((long)SIG_DFL, ABI_SIG_DFL);
SAME((long)SIG_IGN, ABI_SIG_IGN);
SAME(SA_NOCLDSTOP, ABI_SA_NOCLDSTOP);
SAME(SA_RESTART, ABI_SA_RESTART);
SAME(SA_NODEFER, ABI_SA_NODEFER);
SAME(SA_SIGINFO, ABI_SA_SIGINFO);
SAME(SA_ONSTACK, ABI_SA_ONSTACK);
SAME(SA_RESETHAND, ABI_SA_RESETHAND);
SAME(SA_NOCLDWAIT, ABI_SA_NOCLDWAIT);
SAME(SIGRTMIN, ABI_SIGRTMIN);
SAME(SIGRTMAX, ABI_SIGRTMAX);
SAME(sizeof(sigset_t), sizeof(uint64_t));
SAME(sizeof(siginfo_t), sizeof(struct abi_siginfo));
SAME(offsetof(siginfo_t, si_status), offsetof(struct abi_siginfo, status));
SAME(offsetof(siginfo_t, si_uid), offsetof(struct abi_siginfo, uid));
SAME(offsetof(siginfo_t, si_addr), offsetof(struct abi_siginfo, address));
SAME(offsetof(siginfo_t, si_value), offsetof(struct abi_siginfo, value));
SAME(offsetof(siginfo_t, si_overrun), offsetof(struct abi_siginfo, overrun));
SAME(offsetof(siginfo_t, si_timerid), offsetof(struct abi_siginfo, timer));
SAME(SI_USER, ABI_SI_USER);
SAME(SI_KERNEL, ABI_SI_KERNEL);
SAME(SI_QUEUE, ABI_SI_QUEUE);
SAME(SI_TIMER, ABI_SI_TIMER);
SAME(ILL_ILLOPC, ABI_ILL_ILLOPC);
SAME(FPE_INTDIV, ABI_FPE_INTDIV);
SAME(FPE_FLTINV, ABI_FPE_FLTINV);
SAME(SEGV_MAPERR, ABI_SEGV_MAPERR);
SAME(SEGV_ACCERR, ABI_SEGV_ACCERR);
SAME(BUS_ADRALN, ABI_BUS_ADRALN);
SAME(TRAP_BRKPT, ABI_TRAP_BRKPT);
SAME(TRAP_TRACE, ABI_TRAP_TRACE);
SAME(CLD_EXITED, ABI_CLD_EXITED);
SAME(CLD_KILLED, ABI_CLD_KILLED);
SAME(CLD_STOPPED, ABI_CLD_STOPPED);
SAME(CLD_CONTINUED, ABI_CLD_CONTINUED);
SAME(SIGEV_NONE, ABI_SIGEV_NONE);
SAME(SIGEV_SIGNAL, ABI_SIGEV_SIGNAL);
SAME(SIGEV_THREAD, ABI_SIGEV_THREAD);
SAME(SS_ONSTACK, ABI_SS_ONSTACK);
SAME(SS_DISABLE, ABI_SS_DISABLE);
SAME(MINSIGSTKSZ, ABI_MINSIGSTKSZ);
SAME(sizeof(stack_t), sizeof(struct abi_stack));
SAME(offsetof(stack_t, ss_size), offsetof(struct abi_stack, size));
SAME(sizeof(ucontext_t), sizeof(struct abi_ucontext));
SAME(offsetof(ucontext_t, uc_mcontext.gregs), offsetof(struct abi_ucontext, registers));
SAME(offsetof(ucontext_t, uc_mcontext.fpregs), offsetof(struct abi_ucontext, fpu));
SAME(offsetof(ucontext_t, uc_sigmask), offsetof(struct abi_ucontext, mask));
SAME((int)REG_RSP, (int)ABI_REG_RSP);
SAME((int)REG_RIP, (int)ABI_REG_RIP);
SAME((int)REG_CR2, (int)ABI_REG_CR2);
SAME(sizeof(struct __stele_fpstate), 512);

SAME(CLOCK_REALTIME, ABI_CLOCK_REALTIME);
SAME(CLOCK_PROCESS_CPUTIME_ID, ABI_CLOCK_PROCESS_CPUTIME_ID);
SAME(CLOCK_THREAD_CPUTIME_ID, ABI_CLOCK_THREAD_CPUTIME_ID);
SAME(CLOCK_MONOTONIC, ABI_CLOCK_MONOTONIC);
SAME(CLOCK_BOOTTIME, ABI_CLOCK_BOOTTIME);
SAME(TIMER_ABSTIME, ABI_TIMER_ABSTIME);
SAME(sizeof(struct itimerspec), sizeof(struct abi_itimerspec));
SAME(offsetof(struct itimerspec, it_value), offsetof(struct abi_itimerspec, value));
SAME(ITIMER_REAL, ABI_ITIMER_REAL);
SAME(ITIMER_VIRTUAL, ABI_ITIMER_VIRTUAL);
SAME(ITIMER_PROF, ABI_ITIMER_PROF);
SAME(sizeof(struct rlimit), sizeof(struct abi_rlimit));
SAME(RLIM_INFINITY, ABI_RLIM_INFINITY);
SAME(RLIM_NLIMITS, ABI_RLIMIT_COUNT);
SAME(RLIMIT_CPU, ABI_RLIMIT_CPU);
SAME(RLIMIT_FSIZE, ABI_RLIMIT_FSIZE);
SAME(RLIMIT_DATA, ABI_RLIMIT_DATA);
SAME(RLIMIT_STACK, ABI_RLIMIT_STACK);
SAME(RLIMIT_CORE, ABI_RLIMIT_CORE);
SAME(RLIMIT_NPROC, ABI_RLIMIT_NPROC);
SAME(RLIMIT_NOFILE, ABI_RLIMIT_NOFILE);
SAME(RLIMIT_AS, ABI_RLIMIT_AS);
SAME(PRIO_PROCESS, ABI_PRIO_PROCESS);
SAME(PRIO_PGRP, ABI_PRIO_PGRP);
SAME(PRIO_USER, ABI_PRIO_USER);

SAME(O_RDONLY, ABI_O_RDONLY);
SAME(O_WRONLY, ABI_O_WRONLY);
SAME(O_RDWR, ABI_O_RDWR);
SAME(O_APPEND, ABI_O_APPEND);
SAME(O_CREAT, ABI_O_CREAT);
SAME(O_TRUNC, ABI_O_TRUNC);
SAME(O_EXCL, ABI_O_EXCL);
SAME(O_NONBLOCK, ABI_O_NONBLOCK);
SAME(O_NOCTTY, ABI_O_NOCTTY);
SAME(O_CLOEXEC, ABI_O_CLOEXEC);
SAME(O_DIRECTORY, ABI_O_DIRECTORY);

SAME(S_IFMT, ABI_S_IFMT);
SAME(S_IFDIR, ABI_S_IFDIR);
SAME(S_IFCHR, ABI_S_IFCHR);
SAME(S_IFREG, ABI_S_IFREG);
SAME(S_IFIFO, ABI_S_IFIFO);

SAME(sizeof(struct timespec), sizeof(struct abi_timespec));
SAME(offsetof(struct timespec, tv_nsec), offsetof(struct abi_timespec, nsec));
SAME(sizeof(struct utsname), sizeof(struct abi_utsname));
SAME(WNOHANG, ABI_WNOHANG);
SAME(WUNTRACED, ABI_WUNTRACED);
SAME(WEXITED, ABI_WEXITED);
SAME(WCONTINUED, ABI_WCONTINUED);
SAME(WNOWAIT, ABI_WNOWAIT);
SAME((int)P_ALL, ABI_P_ALL);
SAME((int)P_PID, ABI_P_PID);
SAME((int)P_PGID, ABI_P_PGID);

SAME(offsetof(struct dirent, d_reclen), offsetof(struct abi_dirent, length));
SAME(offsetof(struct dirent, d_type), offsetof(struct abi_dirent, type));
SAME(offsetof(struct dirent, d_name), offsetof(struct abi_dirent, name));

SAME(sizeof(struct pollfd), sizeof(struct abi_pollfd));
SAME(offsetof(struct pollfd, revents), offsetof(struct abi_pollfd, revents));
SAME(POLLIN, ABI_POLLIN);
SAME(POLLOUT, ABI_POLLOUT);
SAME(POLLERR, ABI_POLLERR);
SAME(POLLHUP, ABI_POLLHUP);
SAME(POLLNVAL, ABI_POLLNVAL);
SAME(POLLRDNORM, ABI_POLLRDNORM);
SAME(POLLWRNORM, ABI_POLLWRNORM);

SAME(PROT_READ, ABI_PROT_READ);
SAME(PROT_WRITE, ABI_PROT_WRITE);
SAME(PROT_EXEC, ABI_PROT_EXEC);
SAME(MAP_PRIVATE, ABI_MAP_PRIVATE);
SAME(MAP_FIXED, ABI_MAP_FIXED);
SAME(MAP_ANONYMOUS, ABI_MAP_ANONYMOUS);

SAME(NS_REPLACE, ABI_BIND_REPLACE);
SAME(NS_BEFORE, ABI_BIND_BEFORE);
SAME(NS_AFTER, ABI_BIND_AFTER);
SAME(NS_CREATE, ABI_BIND_CREATE);

SAME(sizeof(struct termios), sizeof(struct abi_termios));
SAME(offsetof(struct termios, c_cc), offsetof(struct abi_termios, cc));
SAME(NCCS, ABI_NCCS);
SAME(VINTR, ABI_VINTR);
SAME(VQUIT, ABI_VQUIT);
SAME(VERASE, ABI_VERASE);
SAME(VKILL, ABI_VKILL);
SAME(VEOF, ABI_VEOF);
SAME(VTIME, ABI_VTIME);
SAME(VMIN, ABI_VMIN);
SAME(VSUSP, ABI_VSUSP);
SAME(ICRNL, ABI_ICRNL);
SAME(OPOST, ABI_OPOST);
SAME(ONLCR, ABI_ONLCR);
SAME(ISIG, ABI_ISIG);
SAME(ICANON, ABI_ICANON);
SAME(ECHO, ABI_ECHO);
SAME(ECHOE, ABI_ECHOE);
SAME(TIOCGWINSZ, ABI_TCGWINSZ);
SAME(TIOCGPGRP, ABI_TCGPGRP);
SAME(TIOCSPGRP, ABI_TCSPGRP);
SAME(sizeof(struct winsize), sizeof(struct abi_winsize));
