/* Signals to threads, and names of threads. */
#include <errno.h>
#include <signal.h>
#include <string.h>

#include "syscall.h"
#include "thread.h"

/* If the thread has ended but has not been joined, sends nothing and returns 0. */
int pthread_kill(pthread_t which, int signal) {
  struct thread* thread = (struct thread*)which;
  if (signal < 0 || signal >= NSIG) return EINVAL;
  if (thread == thread_self())
    return (int)-stele_call(ABI_SYS_thread_kill, __stele_thread_id(thread), signal, 0, 0, 0, 0);
  /* All signals are blocked while the lock is held: a handler could call this function again, or
   * leave this function by longjmp with the lock held. */
  const uint64_t all = ~(uint64_t)0;
  uint64_t before;
  long result = 0;
  stele_call(ABI_SYS_sigprocmask, SIG_SETMASK, (long)&all, (long)&before, 0, 0, 0);
  __stele_lock(&thread->signal_lock);
  if (!thread->is_ending) result = stele_call(ABI_SYS_thread_kill, thread->id, signal, 0, 0, 0, 0);
  __stele_unlock(&thread->signal_lock);
  stele_call(ABI_SYS_sigprocmask, SIG_SETMASK, (long)&before, 0, 0, 0, 0);
  return (int)-result;
}

int raise(int signal) {
  if (signal < 0 || signal >= NSIG) {
    errno = EINVAL;
    return -1;
  }
  return (int)SYSCALL(thread_kill, __stele_thread_id(thread_self()), signal);
}

int pthread_setname_np(pthread_t which, const char* name) {
  struct thread* thread = (struct thread*)which;
  if (strlen(name) >= sizeof thread->name) return ERANGE;
  strcpy(thread->name, name);
  return 0;
}
int pthread_getname_np(pthread_t which, char* name, size_t size) {
  const struct thread* thread = (const struct thread*)which;
  if (strlen(thread->name) >= size) return ERANGE;
  strcpy(name, thread->name);
  return 0;
}
