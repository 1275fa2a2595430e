/* The C library's structure of a thread. Internal to user/libc.
 *
 * The structure begins at the thread pointer, fs:0, above the program's thread_local variables
 * (tls.c). The structure of the first thread lies in the first frame of the process's stack
 * (__stele_start). The structure of any other thread lies at the top of this thread's stack
 * (thread_stack.c). newlib's state and the values of keys follow the structure.
 */
#pragma once

#include <limits.h>
#include <pthread.h>
#include <reent.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/lock.h>
#include <sys/single_threaded.h>

#include "abi/syscall.h"

/* The signal of pthread_cancel is the kernel's last signal. Programs cannot use this signal,
 * because the library's SIGRTMAX is one less than ABI_SIGRTMAX. */
#define CANCEL_SIGNAL ABI_SIGRTMAX
#define CANCEL_MASK (1UL << CANCEL_SIGNAL)

enum { ERROR_TEXT_MAX = 128, NAME_MAX_BYTES = 16 };

/* A JOINABLE thread becomes ENDED or DETACHED, whichever comes first. An ENDED thread is released
 * by pthread_join or pthread_detach; a DETACHED thread releases itself when it ends. */
enum thread_state { THREAD_JOINABLE, THREAD_ENDED, THREAD_DETACHED };

/* The effect of a cancellation at a cancellation point. */
enum cancel_mode {
  CANCEL_ENABLED,
  CANCEL_DISABLED,
  CANCEL_REPORTED /* the system call returns -ECANCELED, so that its caller can clean up */
};

struct cxx_destructor;

struct thread {
  /* Fields whose offsets the ABI fixes (self, canary), and fields that are read often. */
  struct thread* self;
  unsigned lock_id; /* identifies a holder of the library's own locks: not 0, below 2^31 */
  uint32_t id;      /* the kernel's id; 0 when the thread has ended and no longer uses its memory */
  struct _reent* reent;
  volatile int cancelled; /* pthread_cancel was called */
  volatile enum cancel_mode cancel_mode;
  volatile int cancel_asynchronously;
  int state;        /* enum thread_state */
  uintptr_t canary; /* canary of -fstack-protector */

  /* The ring of all threads not yet released. Guarded by __stele_threads_lock. */
  struct thread *next, *previous;

  void* (*start)(void*);
  void* argument;
  void* result;
  struct _pthread_cleanup* cleanup;
  struct cxx_destructor* destructors; /* destructors of C++'s thread_local variables */
  void** values;                      /* values of keys; NULL: all are NULL */
  void* mapping; /* the library's mapping of the stack; NULL: the stack is not the library's */
  size_t mapping_size, guard_size;
  void* stack; /* lowest address, for pthread_getattr_np; NULL: the process's stack */
  size_t stack_size;
  void* stack_begin; /* the initial stack pointer; the stack grows down */
  /* True for the process's first thread. When this thread ends, the kernel does not zero its `id`,
   * and its stack is not used again. */
  int is_first;
  _LOCK_T signal_lock; /* held while a signal is sent: the thread does not end meanwhile */
  int is_ending;       /* the thread accepts no more signals; guarded by signal_lock */
  char name[NAME_MAX_BYTES];

  /* The reason for the last failed call (errstr.c). */
  int last_error;
  char last_text[ERROR_TEXT_MAX];
};
_Static_assert(offsetof(struct thread, canary) == 0x28, "where gcc expects it");

/* Reads fs:0 in assembly. If C code read the pointer at fs:0, gcc would assume that the pointer is
 * null, and would drop stores through it. */
static inline struct thread* thread_self(void) {
  struct thread* self;
  __asm__("movq %%fs:0, %0" : "=r"(self));
  return self;
}
#define SELF(member) (thread_self()->member)

extern struct thread* __stele_threads; /* some member of the ring; NULL before the second thread */
extern _LOCK_T __stele_threads_lock;
extern unsigned __stele_thread_count; /* threads that have not ended */

/* Returns the kernel's id of a thread of this process that has not ended. */
uint32_t __stele_thread_id(struct thread* thread);
/* Prepares a process with one thread for the creation of its second. */
void __stele_threads_begin(void);
void __stele_cancel_begin(void);

/* Gets a stack for a new thread and sets up the thread's structure on it (thread_stack.c). Returns
 * NULL with an error number in `*error`: EAGAIN if there is no memory, EINVAL if the stack that the
 * program has set in `attributes` is too small. */
struct thread* __stele_stack_get(const pthread_attr_t* attributes, int* error);
/* Gives back the stack of a thread that has ended or is about to end. No new thread uses the stack
 * before the `id` of the ending thread is 0. Caller holds __stele_threads_lock.
 */
void __stele_stack_put(struct thread* thread);
/* Called in the child of a fork, where no other thread exists: all kept stacks become usable for
 * new threads. */
void __stele_stacks_after_fork(void);

/* Calls the destructors of keys for the calling thread's values (keys.c). */
void __stele_keys_end(struct thread* thread);
