/* Cancellation.
 *
 * pthread_cancel sets a flag and sends a signal that is reserved for this use. A cancellation point
 * tests the flag and then makes its system call, which may wait for ever. A signal between the test
 * and the call would be lost. So the test and the call are in one range of code, in
 * __stele_cancellable: if the signal interrupts the thread in this range, the handler returns to
 * __stele_cancellable_ends, which ends the thread. If the system call had an effect, the thread has
 * already left the range: the call's result is returned, and the next cancellation point ends the
 * thread. (The method is musl's: src/thread/x86_64/syscall_cp.s, pthread_cancel.c.)
 *
 * Another signal may interrupt the thread in the range, and the cancellation signal may arrive
 * while the handler of that other signal runs. The handler of the cancellation signal then sends
 * the cancellation signal again and blocks it in the interrupted context, so that the signal
 * arrives when the other handler has returned to the range. If no other handler was running, the
 * cancellation signal simply stays blocked: the next cancellation point sees the flag. Threads that
 * the cancelled thread creates must not inherit the blocked signal (abi_thread.unblocked).
 *
 * A cancelled thread runs its cleanup handlers and the destructors of its thread_local variables
 * and keys. It does not run the destructors of C++ objects on its stack.
 */
#include "cancel.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <ucontext.h>

/* __stele_cancellable (declared in cancel.h) returns the result of the system call, or of
 * __stele_cancel if the thread is cancelled. */
__asm__(
    ".text\n"
    ".globl __stele_cancellable\n"
    ".type __stele_cancellable, @function\n"
    "__stele_cancellable:\n"
    "  pushq %rbp\n"
    "  movq %rsp, %rbp\n"
    "__stele_cancellable_begin:\n"
    "  cmpl $0, (%rdi)\n"
    "  jne __stele_cancellable_ends\n"
    "  movq %rsi, %rax\n"
    "  movq %rdx, %rdi\n"
    "  movq %rcx, %rsi\n"
    "  movq %r8, %rdx\n"
    "  movq %r9, %r10\n"
    "  movq 16(%rbp), %r8\n"
    "  movq 24(%rbp), %r9\n"
    "  syscall\n"
    "__stele_cancellable_end:\n"
    "  popq %rbp\n"
    "  ret\n"
    "__stele_cancellable_ends:\n"
    "  call __stele_cancel\n"
    "  popq %rbp\n"
    "  ret\n"
    ".size __stele_cancellable, . - __stele_cancellable\n");
extern const char __stele_cancellable_begin[], __stele_cancellable_end[],
    __stele_cancellable_ends[];

/* Ends the calling thread, which was cancelled. In mode CANCEL_REPORTED, returns -ECANCELED
 * instead. */
long __stele_cancel(void) {
  if (SELF(cancel_mode) != CANCEL_REPORTED) pthread_exit(PTHREAD_CANCELED);
  SELF(cancel_mode) = CANCEL_DISABLED;
  return -ECANCELED;
}

static void handle(int signal, siginfo_t* info, void* context) {
  (void)info;
  ucontext_t* interrupted = context;
  if (!SELF(cancelled) || SELF(cancel_mode) == CANCEL_DISABLED) return;
  if (SELF(cancel_asynchronously)) {
    pthread_sigmask(SIG_SETMASK, &interrupted->uc_sigmask, NULL);
    pthread_exit(PTHREAD_CANCELED);
  }
  const greg_t at = interrupted->uc_mcontext.gregs[REG_RIP];
  if (at >= (greg_t)__stele_cancellable_begin && at < (greg_t)__stele_cancellable_end) {
    interrupted->uc_mcontext.gregs[REG_RIP] = (greg_t)__stele_cancellable_ends;
    return;
  }
  interrupted->uc_sigmask |= CANCEL_MASK;
  stele_call(ABI_SYS_thread_kill, thread_self()->id, signal, 0, 0, 0, 0);
}

/* Installs the handler. Called before the process creates its second thread. */
void __stele_cancel_begin(void) {
  extern char __stele_restore[];
  /* SA_RESTART: if the signal interrupts a waiting call, the handler finds the program counter at
   * the syscall instruction, within the range. */
  const struct abi_sigaction action = {.handler = (uint64_t)handle,
                                       .mask = ~(uint64_t)0,
                                       .flags = ABI_SA_SIGINFO | ABI_SA_RESTART,
                                       .restorer = (uint64_t)__stele_restore};
  stele_call(ABI_SYS_sigaction, CANCEL_SIGNAL, (long)&action, 0, 0, 0, 0);
  /* If a cancelled thread started this program by exec, the signal is still blocked. */
  const uint64_t unblocked = CANCEL_MASK;
  stele_call(ABI_SYS_sigprocmask, SIG_UNBLOCK, (long)&unblocked, 0, 0, 0, 0);
}

int pthread_cancel(pthread_t which) {
  struct thread* thread = (struct thread*)which;
  __atomic_store_n(&thread->cancelled, 1, __ATOMIC_SEQ_CST);
  if (thread == thread_self()) {
    if (SELF(cancel_asynchronously)) pthread_testcancel();
    return 0;
  }
  /* Cancellation is disabled: the thread's calls are not interrupted. The thread tests the flag
   * when it enables cancellation. */
  if (__atomic_load_n(&thread->cancel_mode, __ATOMIC_SEQ_CST) == CANCEL_DISABLED) return 0;
  __stele_lock(&thread->signal_lock);
  if (!thread->is_ending) stele_call(ABI_SYS_thread_kill, thread->id, CANCEL_SIGNAL, 0, 0, 0, 0);
  __stele_unlock(&thread->signal_lock);
  return 0;
}

void pthread_testcancel(void) {
  if (SELF(cancelled) && SELF(cancel_mode) == CANCEL_ENABLED) pthread_exit(PTHREAD_CANCELED);
}

int pthread_setcancelstate(int state, int* old) {
  if (state != PTHREAD_CANCEL_ENABLE && state != PTHREAD_CANCEL_DISABLE) return EINVAL;
  if (old != NULL) *old = (int)SELF(cancel_mode);
  /* Store the state before testing the flag: either pthread_cancel sees the new state and sends a
   * signal, or this thread sees the flag. */
  __atomic_store_n(&SELF(cancel_mode), (enum cancel_mode)state, __ATOMIC_SEQ_CST);
  if (SELF(cancel_asynchronously)) pthread_testcancel();
  return 0;
}

int pthread_setcanceltype(int type, int* old) {
  if (type != PTHREAD_CANCEL_DEFERRED && type != PTHREAD_CANCEL_ASYNCHRONOUS) return EINVAL;
  if (old != NULL) *old = SELF(cancel_asynchronously);
  SELF(cancel_asynchronously) = type;
  if (type) pthread_testcancel();
  return 0;
}
_Static_assert((int)CANCEL_ENABLED == PTHREAD_CANCEL_ENABLE, "as programs have it");
_Static_assert((int)CANCEL_DISABLED == PTHREAD_CANCEL_DISABLE, "as programs have it");

void _pthread_cleanup_push(struct _pthread_cleanup* entry, void (*function)(void*),
                           void* argument) {
  *entry = (struct _pthread_cleanup){function, argument, SELF(cleanup)};
  SELF(cleanup) = entry;
}
void _pthread_cleanup_pop(struct _pthread_cleanup* entry, int execute) {
  SELF(cleanup) = entry->__next;
  if (execute) entry->__function(entry->__argument);
}
