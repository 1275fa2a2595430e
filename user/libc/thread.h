/* A thread, as the C library has it. Internal to user/libc.
 *
 * The structure begins at the thread pointer, fs:0, above the program's thread_local variables
 * (tls.c). That of the first thread lies at the bottom of the process's stack; those of the others
 * at the top of their own stacks (thread_stack.c), with newlib's state and the values of keys
 * behind it.
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

/* The signal of pthread_cancel, which programs cannot name (SIGRTMAX is below it). */
#define CANCEL_SIGNAL ABI_SIGRTMAX
#define CANCEL_MASK (1UL << CANCEL_SIGNAL)

enum { ERROR_TEXT_MAX = 128, NAME_MAX_BYTES = 16 };

/* JOINABLE changes once. An ENDED thread is released by pthread_join or pthread_detach; a DETACHED
 * one by itself when it ends. */
enum thread_state { THREAD_JOINABLE, THREAD_ENDED, THREAD_DETACHED };

/* What a cancellation does in a cancellation point. */
enum cancel_mode {
  CANCEL_ENABLED,
  CANCEL_DISABLED,
  CANCEL_REPORTED /* the call returns -ECANCELED, and its caller cleans up first */
};

struct cxx_destructor;

struct thread {
  /* What the ABI fixes, and what is read often. */
  struct thread* self;
  unsigned lock_id; /* as a holder of the library's own locks: not 0, below 2^31 */
  uint32_t id;      /* the kernel's; 0 when it has ended and touches its memory no more */
  struct _reent* reent;
  volatile int cancelled; /* pthread_cancel was called */
  volatile enum cancel_mode cancel_mode;
  volatile int cancel_asynchronously;
  int state;        /* enum thread_state */
  uintptr_t canary; /* of -fstack-protector */

  /* All threads but those that were given back, in a ring. Guarded by __stele_threads_lock. */
  struct thread *next, *previous;

  void* (*start)(void*);
  void* argument;
  void* result;
  struct _pthread_cleanup* cleanup;
  struct cxx_destructor* destructors; /* of C++'s thread_local variables */
  void** values;                      /* of keys; NULL: all are */
  void* mapping;                      /* its stack's, if that is to be given back */
  size_t mapping_size, guard_size;
  void* stack; /* for pthread_getattr_np; NULL: the process's */
  size_t stack_size;
  void* stack_begin;   /* where it begins, downwards */
  int is_first;        /* the kernel does not tell when it ends, and its stack stays */
  _LOCK_T signal_lock; /* held while a signal is sent: the thread does not end meanwhile */
  int is_ending;       /* it takes no signals; guarded by signal_lock */
  char name[NAME_MAX_BYTES];

  /* Why the last call failed (errstr.c). */
  int last_error;
  char last_text[ERROR_TEXT_MAX];
};
_Static_assert(offsetof(struct thread, canary) == 0x28, "where gcc expects it");

/* (By assembly: gcc takes a pointer that it reads at fs:0 for one to nothing, and drops stores.) */
static inline struct thread* thread_self(void) {
  struct thread* self;
  __asm__("movq %%fs:0, %0" : "=r"(self));
  return self;
}
#define SELF(member) (thread_self()->member)

extern struct thread* __stele_threads; /* any one */
extern _LOCK_T __stele_threads_lock;
extern unsigned __stele_thread_count; /* of those that have not ended */

/* The kernel's id of a thread of this process that has not ended. */
uint32_t __stele_thread_id(struct thread* thread);
/* From now on there may be several: the first one knows itself. */
void __stele_threads_begin(void);

/* Stacks (thread_stack.c). NULL with an error number in `*error`. */
struct thread* __stele_stack_get(const pthread_attr_t* attributes, int* error);
/* The thread has ended, or will in a moment: its id says when. Caller holds __stele_threads_lock.
 */
void __stele_stack_put(struct thread* thread);
/* In the child of a fork: no thread is left that could be about to end. */
void __stele_stacks_after_fork(void);

/* Calls the destructors of keys for what the calling thread has (keys.c). */
void __stele_keys_end(struct thread* thread);
