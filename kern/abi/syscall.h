/* System calls: numbers, arguments, structures. C and C++; shared with user programs.
 *
 * A program executes the `syscall` instruction with the number in rax and up to six arguments in
 * rdi, rsi, rdx, r10, r8, r9. The result comes back in rax: -4095..-1 is a negated error number of
 * abi/errno.h, any other value is the result. rcx and r11 are clobbered. Pointers that the kernel
 * cannot read or write give EFAULT.
 */
#pragma once

#ifdef __cplusplus
#include <cstdint>
#else
#include <stdint.h>
#endif

/* X(name, number): the comment gives arguments and result. */
#define ABI_SYSCALLS(X)                                                                            \
  X(exit, 0)           /* (int status) never returns */                                            \
  X(fork, 1)           /* () child PID, 0 in the child */                                          \
  X(execve, 2)         /* (path, argv, envp) only returns on error */                              \
  X(wait4, 3)          /* (pid, int *status, options, struct abi_rusage * or NULL) PID */          \
  X(getpid, 4)         /* () */                                                                    \
  X(getppid, 5)        /* () */                                                                    \
  X(getpgid, 6)        /* (pid, 0 = self) */                                                       \
  X(setpgid, 7)        /* (pid, pgid) */                                                           \
  X(setsid, 8)         /* () session id */                                                         \
  X(getids, 9)         /* (struct abi_ids *) */                                                    \
  X(getgroups, 10)     /* (n, uint32_t *) number of groups; n = 0: only counts */                  \
  X(setresuid, 11)     /* (real, effective, saved) -1 leaves that id unchanged */                  \
  X(setresgid, 12)     /* (real, effective, saved) -1 leaves that id unchanged */                  \
  X(brk, 13)           /* (new end, 0 = ask) the end after the call; unchanged when refused */     \
  X(mmap, 14)          /* (addr, len, prot, flags, fd, offset) address */                          \
  X(munmap, 15)        /* (addr, len) */                                                           \
  X(open, 16)          /* (directory, path, flags, mode) fd */                                     \
  X(close, 17)         /* (fd) */                                                                  \
  X(read, 18)          /* (fd, buf, len) bytes */                                                  \
  X(write, 19)         /* (fd, buf, len) bytes */                                                  \
  X(pread, 20)         /* (fd, buf, len, offset) bytes */                                          \
  X(pwrite, 21)        /* (fd, buf, len, offset) bytes */                                          \
  X(lseek, 22)         /* (fd, offset, whence 0 set 1 cur 2 end) offset */                         \
  X(dup, 23)           /* (fd) fd */                                                               \
  X(dup2, 24)          /* (fd, newfd, flags: 0 or ABI_O_CLOEXEC) newfd */                          \
  X(fcntl, 25)         /* (fd, cmd, arg) newlib's F_*: DUPFD, GETFD, SETFD, GETFL, SETFL, locks */ \
  X(pipe2, 26)         /* (int fds[2], flags) */                                                   \
  X(fstat, 27)         /* (fd, struct abi_stat *) */                                               \
  X(stat, 28)          /* (directory, path, struct abi_stat *, ABI_AT_* flags) */                  \
  X(getdents, 29)      /* (fd, buf, len) bytes of struct abi_dirent, 0 at the end */               \
  X(access, 30)        /* (directory, path, mode, ABI_AT_* flags) */                               \
  X(chdir, 31)         /* (path) */                                                                \
  X(fchdir, 32)        /* (fd) */                                                                  \
  X(getcwd, 33)        /* (buf, len) bytes with the NUL */                                         \
  X(mkdir, 34)         /* (directory, path, mode) */                                               \
  X(fsync, 35)         /* (fd, data only) returns when the device has stored the data */           \
  X(unlink, 36)        /* (directory, path, flags: 0 or ABI_AT_REMOVEDIR) */                       \
  X(rename, 37)        /* (directory, from, directory, to) within one device */                    \
  X(chmod, 38)         /* (directory, path, mode, ABI_AT_* flags) */                               \
  X(truncate, 39)      /* (path, len) */                                                           \
  X(ftruncate, 40)     /* (fd, len) */                                                             \
  X(umask, 41)         /* (mask) old mask */                                                       \
  X(bind, 42)          /* (source path, target path, ABI_BIND_* flags) */                          \
  X(unmount, 43)       /* (target path) */                                                         \
  X(ioctl, 44)         /* (fd, ABI_TC* request, pointer) terminals */                              \
  X(kill, 45)          /* (pid, signal) pid as in POSIX: 0 own group, -1 all, < -1 a group */      \
  X(sigaction, 46)     /* (signal, const struct abi_sigaction *, struct abi_sigaction *old) */     \
  X(sigprocmask, 47)   /* (how: 0 set 1 block 2 unblock, const uint64_t *, uint64_t *old) */       \
  X(sigsuspend, 48)    /* (const uint64_t *mask) EINTR */                                          \
  X(sigreturn, 49)     /* () from the signal trampoline only */                                    \
  X(nanosleep, 50)     /* (clock, flags, const struct abi_timespec *, ... *left or NULL) */        \
  X(clock_gettime, 51) /* (ABI_CLOCK_*, ... *time or NULL, ... *resolution or NULL) */             \
  X(times, 52)         /* (struct abi_rusage *self, struct abi_rusage *children) */                \
  X(errstr, 53)        /* (char *buf, len) bytes with the NUL: why the last failed call failed */  \
  X(uname, 54)         /* (struct abi_utsname *) */                                                \
  X(getentropy, 55)    /* (buf, len <= 256) */                                                     \
  X(yield, 56)         /* () */                                                                    \
  X(poll, 57)          /* (struct abi_pollfd *, n, timespec or NULL, mask or NULL) number ready */ \
  X(fd2path, 58)       /* (fd, buf, len) bytes with the NUL: a present name of the file */         \
  X(setgroups, 59)     /* (n, const uint32_t *) root only */                                       \
  X(set_tls, 60)       /* (address of fs:0, in user memory) thread-local storage */                \
  X(sigpending, 61)    /* (uint64_t *) */                                                          \
  X(sigtimedwait, 62)  /* (const uint64_t *, struct abi_siginfo * or NULL, timespec or NULL) */    \
  X(sigqueue, 63)      /* (pid, signal, uint64_t value) */                                         \
  X(sigaltstack, 64)   /* (const struct abi_stack * or NULL, struct abi_stack *old or NULL) */     \
  X(setitimer, 65)     /* (which, const struct abi_itimerspec * or NULL, ... *old or NULL) */      \
  X(timer_create, 66)  /* (clock, const struct abi_sigevent * or NULL) id */                       \
  X(timer_settime, 67) /* (id, flags, const struct abi_itimerspec *, ... *old or NULL) */          \
  X(timer_gettime, 68) /* (id, struct abi_itimerspec *) */                                         \
  X(timer_overrun, 69) /* (id) overrun count */                                                    \
  X(timer_delete, 70)  /* (id) */                                                                  \
  X(clock_settime, 71) /* (ABI_CLOCK_REALTIME, const struct abi_timespec *) root only */           \
  X(waitid, 72)        /* (ABI_P_*, id, struct abi_siginfo *, options, abi_rusage or NULL) */      \
  X(rlimit, 73)        /* (ABI_RLIMIT_*, const struct abi_rlimit * or NULL, ... *old or NULL) */   \
  X(getpriority, 74)   /* (ABI_PRIO_*, id) 20 - nice: 1..40 */                                     \
  X(setpriority, 75)   /* (ABI_PRIO_*, id, nice) */                                                \
  X(chown, 76)         /* (directory, path, uid, gid, ABI_AT_* flags) 0xffffffff: unchanged */     \
  X(utimens, 77)       /* (directory, path, abi_timespec[2] or NULL = now, ABI_AT_* flags) */      \
  X(link, 78)          /* (directory, from, directory, to, ABI_AT_* flags) */                      \
  X(symlink, 79)       /* (target, directory, path) */                                             \
  X(readlink, 80)      /* (directory, path, buf, len) bytes, without a NUL */                      \
  X(mknod, 81)         /* (directory, path, mode) a file or a FIFO */                              \
  X(statfs, 82)        /* (directory, path, struct abi_statfs *, ABI_AT_* flags) */                \
  X(flock, 83)         /* (fd, ABI_LOCK_*) */                                                      \
  X(getsid, 84)        /* (pid, 0 = self) */                                                       \
  X(thread_create, 85) /* (const struct abi_thread *) thread id */                                 \
  X(thread_exit, 86)   /* () never returns; the last thread ends the process with status 0 */      \
  X(gettid, 87)        /* () thread id */                                                          \
  X(thread_kill, 88)   /* (thread id, signal) a thread of the calling process */                   \
  X(futex, 89)         /* (ABI_FUTEX_*, uint32_t *, value, clock, const timespec * or NULL) */     \
  X(mprotect, 90)      /* (addr, len, prot) */                                                     \
  X(msync, 91)         /* (addr, len, ABI_MS_*) */

#define ABI_SYSCALL_NUMBER(name, number) ABI_SYS_##name = number,
enum { ABI_SYSCALLS(ABI_SYSCALL_NUMBER) ABI_SYS_COUNT = 92 };
#undef ABI_SYSCALL_NUMBER

/* A relative path begins at `directory`. This is the file descriptor of an open directory, or
 * ABI_AT_FDCWD for the current directory. The numbers are newlib's. */
#define ABI_AT_FDCWD (-2)
#define ABI_AT_EACCESS 1          /* access: checks the rights of the effective user */
#define ABI_AT_SYMLINK_NOFOLLOW 2 /* a symbolic link at the end of the path is not followed */
#define ABI_AT_SYMLINK_FOLLOW 4   /* link: a symbolic link at the end of the path is followed */
#define ABI_AT_REMOVEDIR 8        /* unlink: removes a directory, as rmdir does */
#define ABI_AT_EMPTY_PATH 16      /* an empty path means `directory`, which may be any open file */

/* open and fcntl flags: newlib's. */
#define ABI_O_RDONLY 0x0
#define ABI_O_WRONLY 0x1
#define ABI_O_RDWR 0x2
#define ABI_O_ACCMODE 0x3
#define ABI_O_APPEND 0x8
#define ABI_O_CREAT 0x200
#define ABI_O_TRUNC 0x400
#define ABI_O_EXCL 0x800
#define ABI_O_NONBLOCK 0x4000
#define ABI_O_NOCTTY 0x8000
#define ABI_O_CLOEXEC 0x40000
#define ABI_O_SYNC 0x2000 /* an fsync follows each write */
#define ABI_O_NOFOLLOW 0x100000
#define ABI_O_DIRECTORY 0x200000

/* Bits of abi_stat.mode, as everywhere in Unix. */
#define ABI_S_IFMT 0170000
#define ABI_S_IFDIR 0040000
#define ABI_S_IFCHR 0020000
#define ABI_S_IFREG 0100000
#define ABI_S_IFIFO 0010000
#define ABI_S_IFLNK 0120000
#define ABI_S_ISUID 04000 /* a program that runs with the rights of the file's owner */
#define ABI_S_ISGID 02000 /* a program that runs with the rights of the file's group */

/* Users and groups of a process. */
#define ABI_GROUPS_MAX 16
struct abi_ids {
  uint32_t uid, effective_uid, saved_uid;
  uint32_t gid, effective_gid, saved_gid;
  uint32_t secure; /* 1: the program has rights that its user may not have */
};

struct abi_timespec {
  int64_t sec;
  int64_t nsec;
};

struct abi_stat {
  uint64_t dev; /* number of the device */
  uint64_t ino; /* qid path */
  uint32_t mode;
  uint32_t nlink;
  uint32_t uid;
  uint32_t gid;
  uint64_t size; /* bytes; 0 if the size is not known before the file is read */
  uint64_t block_size;
  uint64_t blocks; /* blocks of 512 bytes that the file takes up */
  struct abi_timespec atime, mtime, ctime;
};

/* The space and the number of files of a device. */
struct abi_statfs {
  uint64_t block_size;                            /* bytes of a block */
  uint64_t blocks, blocks_free, blocks_available; /* available: to users other than root */
  uint64_t files, files_free;                     /* 0 if not counted */
  uint64_t device;                                /* as abi_stat.dev */
  uint32_t longest_name;                          /* bytes */
  uint32_t read_only;                             /* 1 or 0 */
};

/* fcntl's record locks: newlib's struct flock. */
struct abi_flock {
  int16_t type, whence; /* ABI_F_*, SEEK_* */
  int32_t unused;
  int64_t start, length; /* bytes; length 0: to the end of the file, however it grows */
  int16_t pid;           /* PID of the lock's holder, set by ABI_F_GETLK */
  int16_t unused_end[3];
};
#define ABI_F_GETLK 7
#define ABI_F_SETLK 8
#define ABI_F_SETLKW 9
#define ABI_F_RDLCK 1
#define ABI_F_WRLCK 2
#define ABI_F_UNLCK 3
/* Arguments of flock. */
#define ABI_LOCK_SH 1
#define ABI_LOCK_EX 2
#define ABI_LOCK_NB 4
#define ABI_LOCK_UN 8

/* Values of nsec for utimens. */
#define ABI_UTIME_NOW (-2)
#define ABI_UTIME_OMIT (-1)

struct abi_dirent {
  uint64_t ino;
  uint64_t next;   /* offset for lseek: the next read begins after this entry */
  uint16_t length; /* bytes of this entry, a multiple of 8 */
  uint8_t type;    /* (mode & ABI_S_IFMT) >> 12 */
  char name[];     /* ends with NUL */
};

struct abi_rusage {
  struct abi_timespec user, system;
  uint64_t max_resident;         /* bytes of user memory */
  uint64_t minor_faults;         /* pages that were made, copied or cleared */
  uint64_t major_faults;         /* pages that were read from a file */
  uint64_t voluntary_switches;   /* task switches because the process waited */
  uint64_t involuntary_switches; /* task switches because the process was preempted */
};

struct abi_utsname {
  char sysname[65], nodename[65], release[65], version[65], machine[65];
};

struct abi_pollfd {
  int32_t fd;
  int16_t events, revents; /* ABI_POLL* */
};
#define ABI_POLLIN 0x1
#define ABI_POLLOUT 0x4
#define ABI_POLLERR 0x8
#define ABI_POLLHUP 0x10
#define ABI_POLLNVAL 0x20
#define ABI_POLLRDNORM 0x40  /* set together with ABI_POLLIN */
#define ABI_POLLWRNORM 0x100 /* set together with ABI_POLLOUT */

#define ABI_PROT_READ 1
#define ABI_PROT_WRITE 2
#define ABI_PROT_EXEC 4
#define ABI_MAP_SHARED 1
#define ABI_MAP_PRIVATE 2
#define ABI_MAP_FIXED 0x10
#define ABI_MAP_ANONYMOUS 0x20
#define ABI_MS_ASYNC 1
#define ABI_MS_SYNC 2
#define ABI_MS_INVALIDATE 4

/* A thread starts at `entry` with `argument` in rdi, on its own stack, with the caller's signal
 * mask and no signal stack. The thread must end with thread_exit. Thread ids are unique in the
 * system and below 2^30. */
struct abi_thread {
  uint64_t entry;
  uint64_t argument;
  uint64_t stack; /* the stack pointer at entry */
  uint64_t tls;   /* address of fs:0, in user memory */
  uint64_t id;    /* uint32_t *, or 0. The kernel stores the thread's id there before the thread or
                   * its creator continues. When the thread will touch no user memory any more, the
                   * kernel stores 0 there and wakes the word's waiters (ABI_FUTEX_WAIT). */
  uint64_t unblocked; /* mask of signals that the thread does not block, even if the caller does */
};

/* futex: threads wait on a word of user memory. A private word is identified by its address and the
 * process. A shared word lies in memory that processes share, and is identified by that memory. */
#define ABI_FUTEX_WAIT 0 /* waits; EAGAIN if *word is not `value`; ETIMEDOUT; EINTR */
#define ABI_FUTEX_WAKE 1 /* wakes at most `value` waiters; returns how many */
#define ABI_FUTEX_WAIT_SHARED 2
#define ABI_FUTEX_WAKE_SHARED 3

/* bind: how the source combines with the files at the target. */
#define ABI_BIND_REPLACE 0
#define ABI_BIND_BEFORE 1
#define ABI_BIND_AFTER 2
#define ABI_BIND_CREATE 4 /* new files go into this member of the union */

/* wait4 options and status, as in POSIX: status is exit code << 8, the number of the killing
 * signal, signal << 8 | 0x7f (stopped), or 0xffff (continued). waitid takes the same options, and
 * ABI_WEXITED and ABI_WNOWAIT. */
#define ABI_WNOHANG 1
#define ABI_WUNTRACED 2 /* also the value of ABI_WSTOPPED for waitid */
#define ABI_WCONTINUED 8
#define ABI_WEXITED 4
#define ABI_WNOWAIT 0x10
#define ABI_P_ALL 0
#define ABI_P_PID 1
#define ABI_P_PGID 2

/* Clocks: newlib's numbers. */
#define ABI_CLOCK_REALTIME_COARSE 0
#define ABI_CLOCK_REALTIME 1
#define ABI_CLOCK_PROCESS_CPUTIME_ID 2
#define ABI_CLOCK_THREAD_CPUTIME_ID 3 /* processor time of the calling thread */
#define ABI_CLOCK_MONOTONIC 4
#define ABI_CLOCK_MONOTONIC_RAW 5
#define ABI_CLOCK_MONOTONIC_COARSE 6
#define ABI_CLOCK_BOOTTIME 7
#define ABI_TIMER_ABSTIME 4

struct abi_itimerspec {
  struct abi_timespec interval, value;
};
#define ABI_ITIMER_REAL 0
#define ABI_ITIMER_VIRTUAL 1
#define ABI_ITIMER_PROF 2

/* Signals: newlib's numbers, followed by the real-time signals. A real-time signal that sigqueue or
 * a timer sends is queued with a value. */
#define ABI_SIGNALS(X)                         \
  X(HUP, 1)     /* terminal gone */            \
  X(INT, 2)     /* ^C */                       \
  X(QUIT, 3)    /* ^ and backslash */          \
  X(ILL, 4)     /* bad instruction */          \
  X(TRAP, 5)    /* breakpoint */               \
  X(ABRT, 6)    /* abort() */                  \
  X(EMT, 7)     /* the program's own */        \
  X(FPE, 8)     /* arithmetic */               \
  X(KILL, 9)    /* cannot be caught */         \
  X(BUS, 10)    /* no such memory */           \
  X(SEGV, 11)   /* bad access */               \
  X(SYS, 12)    /* bad system call */          \
  X(PIPE, 13)   /* no reader */                \
  X(ALRM, 14)   /* timer */                    \
  X(TERM, 15)   /* termination */              \
  X(URG, 16)    /* ignored unless caught */    \
  X(STOP, 17)   /* stops; cannot be caught */  \
  X(TSTP, 18)   /* ^Z */                       \
  X(CONT, 19)   /* continues */                \
  X(CHLD, 20)   /* a child stopped or ended */ \
  X(TTIN, 21)   /* read in the background */   \
  X(TTOU, 22)   /* write in the background */  \
  X(IO, 23)     /* the program's own */        \
  X(XCPU, 24)   /* RLIMIT_CPU */               \
  X(XFSZ, 25)   /* RLIMIT_FSIZE */             \
  X(VTALRM, 26) /* ITIMER_VIRTUAL */           \
  X(PROF, 27)   /* ITIMER_PROF */              \
  X(WINCH, 28)  /* window size */              \
  X(LOST, 29)   /* the program's own */        \
  X(USR1, 30)   /* the program's own */        \
  X(USR2, 31)   /* the program's own */
#define ABI_SIGNAL_NUMBER(name, number) ABI_SIG##name = number,
enum { ABI_SIGNALS(ABI_SIGNAL_NUMBER) ABI_SIGRTMIN = 32, ABI_SIGRTMAX = 63, ABI_SIGNAL_COUNT = 64 };
#undef ABI_SIGNAL_NUMBER

#define ABI_SIG_DFL 0
#define ABI_SIG_IGN 1
#define ABI_SA_NOCLDSTOP 1
#define ABI_SA_SIGINFO 2
#define ABI_SA_ONSTACK 4
#define ABI_SA_RESTART 0x10
#define ABI_SA_NODEFER 0x20
#define ABI_SA_RESETHAND 0x40
#define ABI_SA_NOCLDWAIT 0x80

/* The kernel calls handler(int signal, struct abi_siginfo *, struct abi_ucontext *) with the stack
 * aligned as the ABI requires. The handler returns to `restorer`, which calls ABI_SYS_sigreturn.
 * Bit s of a mask is signal s. */
struct abi_sigaction {
  uint64_t handler;
  uint64_t mask;
  uint64_t flags;
  uint64_t restorer;
};

/* The cause of a signal. Fields that have no meaning for a `code` are 0. */
struct abi_siginfo {
  int32_t signo;
  int32_t code;   /* ABI_SI_*, ABI_CLD_* for SIGCHLD, or the kind of a fault */
  int32_t error;  /* always 0 */
  int32_t status; /* for a child: exit code or signal */
  int32_t pid;    /* PID of the sender, or of the child */
  uint32_t uid;
  uint64_t address; /* for a fault: the address that faulted */
  uint64_t value;   /* the value given to sigqueue or timer_create */
  int32_t overrun;  /* for a timer: its overrun count */
  int32_t timer;
};
#define ABI_SI_USER 0
#define ABI_SI_KERNEL 0x80
#define ABI_SI_QUEUE (-1)
#define ABI_SI_TIMER (-2)
#define ABI_ILL_ILLOPC 1
#define ABI_FPE_INTDIV 1
#define ABI_FPE_INTOVF 2
#define ABI_FPE_FLTDIV 3
#define ABI_FPE_FLTOVF 4
#define ABI_FPE_FLTUND 5
#define ABI_FPE_FLTRES 6
#define ABI_FPE_FLTINV 7
#define ABI_SEGV_MAPERR 1
#define ABI_SEGV_ACCERR 2
#define ABI_BUS_ADRALN 1
#define ABI_BUS_ADRERR 2
#define ABI_TRAP_BRKPT 1
#define ABI_TRAP_TRACE 2
#define ABI_CLD_EXITED 1
#define ABI_CLD_KILLED 2
#define ABI_CLD_STOPPED 5
#define ABI_CLD_CONTINUED 6

#define ABI_SS_ONSTACK 1
#define ABI_SS_DISABLE 2
#define ABI_MINSIGSTKSZ 2048
struct abi_stack {
  uint64_t base;
  int32_t flags; /* ABI_SS_* */
  int32_t unused;
  uint64_t size;
};

/* Indices in abi_ucontext.registers. A struct abi_ucontext is the interrupted state to which a
 * handler returns. The handler may change `mask`, the floating-point state, and the registers up to
 * ABI_REG_EFL. Changes of other fields have no effect. */
enum {
  ABI_REG_R8,
  ABI_REG_R9,
  ABI_REG_R10,
  ABI_REG_R11,
  ABI_REG_R12,
  ABI_REG_R13,
  ABI_REG_R14,
  ABI_REG_R15,
  ABI_REG_RDI,
  ABI_REG_RSI,
  ABI_REG_RBP,
  ABI_REG_RBX,
  ABI_REG_RDX,
  ABI_REG_RAX,
  ABI_REG_RCX,
  ABI_REG_RSP,
  ABI_REG_RIP,
  ABI_REG_EFL,
  ABI_REG_CSGSFS,
  ABI_REG_ERR,
  ABI_REG_TRAPNO,
  ABI_REG_OLDMASK,
  ABI_REG_CR2,
  ABI_REG_COUNT
};
struct abi_ucontext {
  uint64_t flags, link;
  struct abi_stack stack;
  uint64_t registers[ABI_REG_COUNT];
  uint64_t fpu; /* address of the floating-point state, which begins in FXSAVE's format */
  uint64_t reserved[8];
  uint64_t mask;
};

/* The action of a timer at expiry. */
struct abi_sigevent {
  int32_t notify;
  int32_t signal;
  uint64_t value;
};
#define ABI_SIGEV_NONE 1
#define ABI_SIGEV_SIGNAL 2
#define ABI_SIGEV_THREAD 3 /* ENOTSUP */

/* Limits of a process's resources. */
struct abi_rlimit {
  uint64_t current, maximum; /* ABI_RLIM_INFINITY: no limit */
};
#define ABI_RLIM_INFINITY (~(uint64_t)0)
#define ABI_RLIMIT_CPU 0
#define ABI_RLIMIT_FSIZE 1
#define ABI_RLIMIT_DATA 2
#define ABI_RLIMIT_STACK 3
#define ABI_RLIMIT_CORE 4
#define ABI_RLIMIT_RSS 5
#define ABI_RLIMIT_NPROC 6
#define ABI_RLIMIT_NOFILE 7
#define ABI_RLIMIT_MEMLOCK 8
#define ABI_RLIMIT_AS 9
#define ABI_RLIMIT_COUNT 10

#define ABI_PRIO_PROCESS 0
#define ABI_PRIO_PGRP 1
#define ABI_PRIO_USER 2

/* Terminals (ABI_SYS_ioctl). */
#define ABI_TCGETS 1    /* struct abi_termios * */
#define ABI_TCSETS 2    /* const struct abi_termios *, at once */
#define ABI_TCSETSW 3   /* const struct abi_termios *, after output has drained */
#define ABI_TCSETSF 4   /* const struct abi_termios *, after output has drained; discards input */
#define ABI_TCGPGRP 5   /* int *: id of the foreground process group */
#define ABI_TCSPGRP 6   /* const int *: id of the new foreground process group */
#define ABI_TCGWINSZ 7  /* struct abi_winsize * */
#define ABI_TCSWINSZ 8  /* const struct abi_winsize * */
#define ABI_TCSCTTY 9   /* int: the session gets the terminal; 1: root may take it from another */
#define ABI_TCNOTTY 10  /* gives up the terminal; a leader gives it up for its session */
#define ABI_TCGSID 11   /* int *: id of the terminal's session */
#define ABI_TCFLSH 12   /* int: discards 0 input, 1 output, 2 both */
#define ABI_TCXONC 13   /* int: 0 stops output, 1 resumes it; 2 sends VSTOP, 3 VSTART */
#define ABI_TCSBRK 14   /* int: waits until output has drained */
#define ABI_TCGPTN 15   /* int *: N of /dev/pts/N */
#define ABI_TCSPTLCK 16 /* const int *, on a master: not 0 locks the slave against open */

#define ABI_ISTRIP 0x20
#define ABI_INLCR 0x40
#define ABI_IGNCR 0x80
#define ABI_ICRNL 0x100
#define ABI_IXON 0x400
#define ABI_IXANY 0x800
#define ABI_OPOST 0x1
#define ABI_ONLCR 0x4
#define ABI_OCRNL 0x8
#define ABI_CS8 0x30
#define ABI_CREAD 0x80
#define ABI_B115200 0x1002
#define ABI_ISIG 0x1
#define ABI_ICANON 0x2
#define ABI_ECHO 0x8
#define ABI_ECHOE 0x10
#define ABI_ECHOK 0x20
#define ABI_ECHONL 0x40
#define ABI_NOFLSH 0x80
#define ABI_TOSTOP 0x100
#define ABI_ECHOCTL 0x200
#define ABI_ECHOKE 0x800
#define ABI_IEXTEN 0x8000

enum {
  ABI_VINTR,
  ABI_VQUIT,
  ABI_VERASE,
  ABI_VKILL,
  ABI_VEOF,
  ABI_VTIME,
  ABI_VMIN,
  ABI_VSUSP,
  ABI_VEOL,
  ABI_VSTART,
  ABI_VSTOP,
  ABI_VLNEXT,
  ABI_VWERASE,
  ABI_VREPRINT,
  ABI_VEOL2,
  ABI_NCCS = 20
};

struct abi_termios {
  uint32_t iflag, oflag, cflag, lflag;
  uint8_t cc[ABI_NCCS];
};

struct abi_winsize {
  uint16_t rows, columns, x_pixels, y_pixels;
};
