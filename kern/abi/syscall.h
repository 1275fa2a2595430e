/* System calls: numbers, arguments, structures. C and C++; shared with user programs.
 *
 * The `syscall` instruction with the number in rax and up to six arguments in rdi, rsi, rdx, r10,
 * r8, r9. The result comes back in rax: -4095..-1 is a negated error number of abi/errno.h, all
 * else is the result. rcx and r11 are lost. Pointers that the kernel cannot read or write give
 * EFAULT.
 */
#pragma once

#ifdef __cplusplus
#include <cstdint>
#else
#include <stdint.h>
#endif

/* X(name, number): the comment gives arguments and result. */
#define ABI_SYSCALLS(X)                                                                           \
  X(exit, 0)           /* (int status) never returns */                                           \
  X(fork, 1)           /* () child PID, 0 in the child */                                         \
  X(execve, 2)         /* (path, argv, envp) only returns on error */                             \
  X(wait4, 3)          /* (pid, int *status, options, struct abi_rusage * or NULL) PID */         \
  X(getpid, 4)         /* () */                                                                   \
  X(getppid, 5)        /* () */                                                                   \
  X(getpgid, 6)        /* (pid, 0 = self) */                                                      \
  X(setpgid, 7)        /* (pid, pgid) */                                                          \
  X(setsid, 8)         /* () session id */                                                        \
  X(getids, 9)         /* (struct abi_ids *) */                                                   \
  X(getgroups, 10)     /* (n, uint32_t *) how many; n = 0: only counts */                         \
  X(setresuid, 11)     /* (real, effective, saved) -1 leaves one as it is */                      \
  X(setresgid, 12)     /* (real, effective, saved) */                                             \
  X(brk, 13)           /* (new end, 0 = ask) the end after the call; unchanged when refused */    \
  X(mmap, 14)          /* (addr, len, prot, flags, fd, offset) anonymous private only */          \
  X(munmap, 15)        /* (addr, len) */                                                          \
  X(open, 16)          /* (path, flags, mode) fd */                                               \
  X(close, 17)         /* (fd) */                                                                 \
  X(read, 18)          /* (fd, buf, len) bytes */                                                 \
  X(write, 19)         /* (fd, buf, len) bytes */                                                 \
  X(pread, 20)         /* (fd, buf, len, offset) bytes */                                         \
  X(pwrite, 21)        /* (fd, buf, len, offset) bytes */                                         \
  X(lseek, 22)         /* (fd, offset, whence 0 set 1 cur 2 end) offset */                        \
  X(dup, 23)           /* (fd) fd */                                                              \
  X(dup2, 24)          /* (fd, newfd) newfd */                                                    \
  X(fcntl, 25)         /* (fd, cmd, arg) newlib's F_DUPFD, GETFD, SETFD, GETFL, SETFL */          \
  X(pipe2, 26)         /* (int fds[2], flags) */                                                  \
  X(fstat, 27)         /* (fd, struct abi_stat *) */                                              \
  X(stat, 28)          /* (path, struct abi_stat *) */                                            \
  X(getdents, 29)      /* (fd, buf, len) bytes of struct abi_dirent, 0 at the end */              \
  X(access, 30)        /* (path, mode) */                                                         \
  X(chdir, 31)         /* (path) */                                                               \
  X(fchdir, 32)        /* (fd) */                                                                 \
  X(getcwd, 33)        /* (buf, len) bytes with the NUL */                                        \
  X(mkdir, 34)         /* (path, mode) */                                                         \
  X(rmdir, 35)         /* (path) */                                                               \
  X(unlink, 36)        /* (path) */                                                               \
  X(rename, 37)        /* (from, to) within one device */                                         \
  X(chmod, 38)         /* (path, mode) */                                                         \
  X(truncate, 39)      /* (path, len) */                                                          \
  X(ftruncate, 40)     /* (fd, len) */                                                            \
  X(umask, 41)         /* (mask) old mask */                                                      \
  X(bind, 42)          /* (source path, target path, ABI_BIND_* flags) */                         \
  X(unmount, 43)       /* (target path) */                                                        \
  X(ioctl, 44)         /* (fd, ABI_TC* request, pointer) terminals */                             \
  X(kill, 45)          /* (pid, signal) pid as in POSIX: 0 own group, -1 all, < -1 a group */     \
  X(sigaction, 46)     /* (signal, const struct abi_sigaction *, struct abi_sigaction *old) */    \
  X(sigprocmask, 47)   /* (how: 0 set 1 block 2 unblock, const uint64_t *, uint64_t *old) */      \
  X(sigsuspend, 48)    /* (const uint64_t *mask) EINTR */                                         \
  X(sigreturn, 49)     /* () from the signal trampoline only */                                   \
  X(nanosleep, 50)     /* (const struct abi_timespec *, struct abi_timespec *left or NULL) */     \
  X(clock_gettime, 51) /* (clock 0 real 1 (or 4) monotonic, struct abi_timespec *) */             \
  X(times, 52)         /* (struct abi_rusage *self, struct abi_rusage *children) */               \
  X(errstr, 53)        /* (char *buf, len) bytes with the NUL: why the last failed call failed */ \
  X(uname, 54)         /* (struct abi_utsname *) */                                               \
  X(getentropy, 55)    /* (buf, len <= 256) */                                                    \
  X(yield, 56)         /* () */                                                                   \
  X(poll, 57)          /* (struct abi_pollfd *, n, timeout ms, -1 = for ever) number ready */     \
  X(fd2path, 58)       /* (fd, buf, len) bytes with the NUL: a name that leads to it now */       \
  X(setgroups, 59)     /* (n, const uint32_t *) root only */                                      \
  X(getsid, 60)        /* (pid, 0 = self) */

#define ABI_SYSCALL_NUMBER(name, number) ABI_SYS_##name = number,
enum { ABI_SYSCALLS(ABI_SYSCALL_NUMBER) ABI_SYS_COUNT = 61 };
#undef ABI_SYSCALL_NUMBER

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
#define ABI_O_DIRECTORY 0x200000

/* Bits of abi_stat.mode, as everywhere in Unix. */
#define ABI_S_IFMT 0170000
#define ABI_S_IFDIR 0040000
#define ABI_S_IFCHR 0020000
#define ABI_S_IFREG 0100000
#define ABI_S_IFIFO 0010000
#define ABI_S_ISUID 04000 /* runs with its owner's rights */
#define ABI_S_ISGID 02000 /* runs with its group's rights */

/* Users and groups of a process. */
#define ABI_GROUPS_MAX 16
struct abi_ids {
  uint32_t uid, effective_uid, saved_uid;
  uint32_t gid, effective_gid, saved_gid;
  uint32_t secure; /* its program has rights that its user may not have */
};

struct abi_timespec {
  int64_t sec;
  int64_t nsec;
};

struct abi_stat {
  uint64_t dev; /* device type and instance */
  uint64_t ino; /* qid path */
  uint32_t mode;
  uint32_t nlink;
  uint32_t uid;
  uint32_t gid;
  uint64_t size; /* bytes; 0 where it is not known before reading */
  uint64_t block_size;
  struct abi_timespec atime, mtime, ctime;
};

struct abi_dirent {
  uint64_t ino;
  uint16_t length; /* of this entry in bytes, a multiple of 8 */
  uint8_t type;    /* (mode & ABI_S_IFMT) >> 12 */
  char name[];     /* ends with NUL */
};

struct abi_rusage {
  struct abi_timespec user, system;
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

#define ABI_PROT_READ 1
#define ABI_PROT_WRITE 2
#define ABI_PROT_EXEC 4
#define ABI_MAP_PRIVATE 2
#define ABI_MAP_FIXED 0x10
#define ABI_MAP_ANONYMOUS 0x20

/* bind: what becomes of what was at the target. */
#define ABI_BIND_REPLACE 0
#define ABI_BIND_BEFORE 1
#define ABI_BIND_AFTER 2
#define ABI_BIND_CREATE 4 /* new files are made in this part of the union */

/* wait4 options and status, as in POSIX: status is (exit << 8), or the signal that killed. */
#define ABI_WNOHANG 1
#define ABI_WUNTRACED 2

/* Signals: newlib's numbers. */
#define ABI_SIGNALS(X)                        \
  X(HUP, 1)    /* terminal gone */            \
  X(INT, 2)    /* ^C */                       \
  X(QUIT, 3)   /* ^ and backslash */          \
  X(ILL, 4)    /* bad instruction */          \
  X(TRAP, 5)   /* breakpoint */               \
  X(ABRT, 6)   /* abort() */                  \
  X(FPE, 8)    /* arithmetic */               \
  X(KILL, 9)   /* cannot be caught */         \
  X(BUS, 10)   /* no such memory */           \
  X(SEGV, 11)  /* bad access */               \
  X(SYS, 12)   /* bad system call */          \
  X(PIPE, 13)  /* nobody reads */             \
  X(ALRM, 14)  /* timer */                    \
  X(TERM, 15)  /* please end */               \
  X(URG, 16)   /* ignored unless caught */    \
  X(STOP, 17)  /* stops; cannot be caught */  \
  X(TSTP, 18)  /* ^Z */                       \
  X(CONT, 19)  /* goes on */                  \
  X(CHLD, 20)  /* a child stopped or ended */ \
  X(TTIN, 21)  /* read in the background */   \
  X(TTOU, 22)  /* write in the background */  \
  X(WINCH, 28) /* window size */              \
  X(USR1, 30)  /* the program's own */        \
  X(USR2, 31)  /* the program's own */
#define ABI_SIGNAL_NUMBER(name, number) ABI_SIG##name = number,
enum { ABI_SIGNALS(ABI_SIGNAL_NUMBER) ABI_SIGNAL_COUNT = 32 };
#undef ABI_SIGNAL_NUMBER

#define ABI_SIG_DFL 0
#define ABI_SIG_IGN 1
#define ABI_SA_NOCLDSTOP 1
#define ABI_SA_RESTART 0x10
#define ABI_SA_NODEFER 0x20

/* The handler is called as handler(int signal) with the stack aligned as the ABI wants; it returns
 * to `restorer`, which makes ABI_SYS_sigreturn. Bit s of a mask is signal s. */
struct abi_sigaction {
  uint64_t handler;
  uint64_t mask;
  uint64_t flags;
  uint64_t restorer;
};

/* Terminals (ABI_SYS_ioctl). */
#define ABI_TCGETS 1   /* struct abi_termios * */
#define ABI_TCSETS 2   /* const struct abi_termios *, at once */
#define ABI_TCSETSW 3  /* … after output has drained */
#define ABI_TCSETSF 4  /* … and input is thrown away */
#define ABI_TCGPGRP 5  /* int * */
#define ABI_TCSPGRP 6  /* const int * */
#define ABI_TCGWINSZ 7 /* struct abi_winsize * */
#define ABI_TCSWINSZ 8 /* const struct abi_winsize * */
#define ABI_TCSCTTY 9  /* int: becomes the session's; 1: also if another session has it (root) */
#define ABI_TCNOTTY 10 /* is the session's, or the caller's, no more */
#define ABI_TCGSID 11  /* int *: session */
#define ABI_TCFLSH 12  /* int: throws away 0 input, 1 output, 2 both */
#define ABI_TCXONC 13  /* int: 0 stops output, 1 goes on; 2 sends VSTOP, 3 VSTART */
#define ABI_TCSBRK 14  /* int: waits until output has drained */
#define ABI_TCGPTN 15  /* int *: N of /dev/pts/N */
#define ABI_TCSPTLCK \
  16 /* const int *: of a master; others than 0 keep the slave from being opened */

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
