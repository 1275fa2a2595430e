#ifndef _STELE_SETJMP_H
#define _STELE_SETJMP_H
#include_next <setjmp.h>
#include <signal.h>
#include <sys/cdefs.h>

typedef struct {
  jmp_buf __jump;
  int __saved; /* true if __mask holds a saved signal mask */
  sigset_t __mask;
} sigjmp_buf[1];

/* setjmp saves no signal mask, so _setjmp does the same as setjmp. */
__BEGIN_DECLS
int _setjmp(jmp_buf);
void _longjmp(jmp_buf, int) __attribute__((noreturn));
int sigsetjmp(sigjmp_buf, int);
void siglongjmp(sigjmp_buf, int) __attribute__((noreturn));
__END_DECLS
#endif
