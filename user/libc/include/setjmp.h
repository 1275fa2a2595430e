#ifndef _STELE_SETJMP_H
#define _STELE_SETJMP_H
#include_next <setjmp.h>
#include <signal.h>
#include <sys/cdefs.h>

typedef struct {
  jmp_buf __jump;
  int __saved;
  sigset_t __mask;
} sigjmp_buf[1];

#define sigsetjmp(environment, save)                                            \
  (((environment)[0].__saved = (save)) != 0                                     \
       ? (void)sigprocmask(SIG_SETMASK, (sigset_t*)0, &(environment)[0].__mask) \
       : (void)0,                                                               \
   setjmp((environment)[0].__jump))

__BEGIN_DECLS
void siglongjmp(sigjmp_buf, int) __attribute__((noreturn));
__END_DECLS
#endif
