/* _setjmp, _longjmp, sigsetjmp and siglongjmp.
 *
 * setjmp saves the return address and stack pointer of its caller. In sigsetjmp, setjmp must save
 * the return address and stack pointer of sigsetjmp's caller. So sigsetjmp is in assembly: it calls
 * a function that stores the mask, restores the stack, and jumps to setjmp. Then setjmp returns to
 * sigsetjmp's caller, the first time and after each longjmp.
 */
#include <setjmp.h>
#include <signal.h>
#include <stddef.h>

/* Called by sigsetjmp: stores the signal mask if `save` is not 0. */
void __stele_save_mask(sigjmp_buf environment, int save) {
  environment[0].__saved = save != 0;
  if (save != 0) sigprocmask(SIG_SETMASK, NULL, &environment[0].__mask);
}

_Static_assert(offsetof(__typeof__(((sigjmp_buf*)0)[0][0]), __jump) == 0,
               "sigsetjmp gives setjmp its own argument");
__asm__(
    ".text\n"
    ".globl _setjmp\n"
    ".type _setjmp, @function\n"
    "_setjmp:\n"
    "  jmp setjmp\n"
    ".size _setjmp, . - _setjmp\n"
    ".globl sigsetjmp\n"
    ".type sigsetjmp, @function\n"
    "sigsetjmp:\n"
    "  pushq %rdi\n"
    "  call __stele_save_mask\n" /* the push has aligned the stack to 16 bytes */
    "  popq %rdi\n"
    "  jmp setjmp\n"
    ".size sigsetjmp, . - sigsetjmp\n");

void _longjmp(jmp_buf environment, int value) {
  longjmp(environment, value);
}

void siglongjmp(sigjmp_buf environment, int value) {
  if (environment[0].__saved) sigprocmask(SIG_SETMASK, &environment[0].__mask, NULL);
  longjmp(environment[0].__jump, value);
}
