/* The interrupted state of a thread: the third argument of a handler with SA_SIGINFO. The thread
 * continues with the handler's changes, except those of uc_stack. There is no getcontext,
 * makecontext, setcontext or swapcontext. */
#ifndef _SYS_UCONTEXT_H
#define _SYS_UCONTEXT_H
#include <sys/signal.h>

typedef unsigned long greg_t;
#define NGREG 23
typedef greg_t gregset_t[NGREG];

#if __GNU_VISIBLE || __BSD_VISIBLE
enum {
  REG_R8,
  REG_R9,
  REG_R10,
  REG_R11,
  REG_R12,
  REG_R13,
  REG_R14,
  REG_R15,
  REG_RDI,
  REG_RSI,
  REG_RBP,
  REG_RBX,
  REG_RDX,
  REG_RAX,
  REG_RCX,
  REG_RSP,
  REG_RIP,
  REG_EFL,
  REG_CSGSFS,
  REG_ERR,
  REG_TRAPNO,
  REG_OLDMASK,
  REG_CR2
};
#endif

/* The floating point state in the format of FXSAVE. */
struct __stele_fpstate {
  unsigned short cwd, swd, ftw, fop;
  unsigned long rip, rdp;
  unsigned mxcsr, mxcr_mask;
  unsigned char st[8][16], xmm[16][16];
  unsigned char __reserved[96];
};
typedef struct __stele_fpstate* fpregset_t;

typedef struct {
  gregset_t gregs;
  fpregset_t fpregs;
  unsigned long __reserved[8];
} mcontext_t;

typedef struct __stele_ucontext {
  unsigned long uc_flags;
  struct __stele_ucontext* uc_link;
  stack_t uc_stack;
  mcontext_t uc_mcontext;
  sigset_t uc_sigmask;
} ucontext_t;
#endif
