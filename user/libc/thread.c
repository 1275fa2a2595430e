/* Threads: how they begin and end.
 *
 * A detached thread releases its memory itself when it ends. The memory of a joinable thread is
 * released by pthread_join, or by pthread_detach if the thread has already ended. An atomic change
 * of `state` decides whether the thread or pthread_detach releases the memory. Until a thread is
 * released, its structure is in the ring of all threads (__stele_threads). When an ended thread no
 * longer uses its stack, the kernel zeroes `id` and wakes the threads that wait on it
 * (abi/syscall.h). The first thread of a process or of a forked child keeps its stack, and zeroes
 * `id` itself.
 *
 * Lock order: __stele_threads_lock, then a thread's signal_lock.
 */
#include "thread.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "futex.h"
#include "start.h"

struct thread* __stele_threads;
__LOCK_INIT(, __stele_threads_lock);
unsigned __stele_thread_count = 1;

/* The entry point of a thread; rdi has its structure. rbp = 0 ends the chain of frame pointers. */
__asm__(
    ".text\n"
    ".type __stele_thread_entry, @function\n"
    "__stele_thread_entry:\n"
    "  xorl %ebp, %ebp\n"
    "  call __stele_thread_main\n"
    "  hlt\n"
    ".size __stele_thread_entry, . - __stele_thread_entry\n");
extern const char __stele_thread_entry[];

_Noreturn void __stele_thread_main(struct thread* self);
_Noreturn void __stele_thread_main(struct thread* self) {
  pthread_exit(self->start(self->argument));
}

uint32_t __stele_thread_id(struct thread* thread) {
  /* The first thread asks for its id when needed; other threads get theirs at creation. */
  if (thread->id == 0 && thread == thread_self())
    thread->id = (uint32_t)stele_call(ABI_SYS_gettid, 0, 0, 0, 0, 0, 0);
  return thread->id;
}

void __stele_threads_begin(void) {
  if (!__libc_single_threaded) return;
  struct thread* self = thread_self();
  __stele_thread_id(self);
  if (__stele_threads == NULL) __stele_threads = self->next = self->previous = self;
  __stele_cancel_begin();
  __libc_single_threaded = 0;
}

/* enter() puts a thread into the ring of all threads; leave() takes it out and gives its stack
 * back. Callers hold __stele_threads_lock. */
static void enter(struct thread* thread) {
  thread->next = __stele_threads->next;
  thread->previous = __stele_threads;
  thread->next->previous = thread->previous->next = thread;
}
static void leave(struct thread* thread) {
  if (__stele_threads == thread) __stele_threads = thread->next;
  thread->next->previous = thread->previous;
  thread->previous->next = thread->next;
  __stele_stack_put(thread);
}

int pthread_create(pthread_t* restrict result, const pthread_attr_t* restrict attributes,
                   void* (*start)(void*), void* restrict argument) {
  int error;
  __stele_threads_begin();
  struct thread* thread = __stele_stack_get(attributes, &error);
  if (thread == NULL) return error;
  thread->start = start;
  thread->argument = argument;
  if (attributes != NULL && attributes->__detach_state == PTHREAD_CREATE_DETACHED)
    thread->state = THREAD_DETACHED;

  /* The thread enters the ring before it starts, since it may end before this function continues.
   */
  static unsigned last_lock_id = 1; /* the lock_id of the process's first thread */
  __stele_lock(&__stele_threads_lock);
  last_lock_id = last_lock_id == 0x7fffffff ? 2 : last_lock_id + 1;
  thread->lock_id = last_lock_id;
  enter(thread);
  __stele_thread_count++;
  __stele_unlock(&__stele_threads_lock);
  *result = (pthread_t)thread;
  const struct abi_thread wanted = {.entry = (uint64_t)__stele_thread_entry,
                                    .argument = (uint64_t)thread,
                                    .stack = (uint64_t)thread->stack_begin,
                                    .tls = (uint64_t)thread,
                                    .id = (uint64_t)&thread->id,
                                    .unblocked = CANCEL_MASK};
  const long made = stele_call(ABI_SYS_thread_create, (long)&wanted, 0, 0, 0, 0, 0);
  if (made >= 0) return 0;
  __stele_lock(&__stele_threads_lock);
  __stele_thread_count--;
  leave(thread);
  __stele_unlock(&__stele_threads_lock);
  return made == -ENOMEM ? EAGAIN : (int)-made;
}

void pthread_exit(void* result) {
  struct thread* self = thread_self();
  self->cancel_mode = CANCEL_DISABLED;
  self->cancel_asynchronously = 0;
  self->result = result;
  while (self->cleanup != NULL) {
    struct _pthread_cleanup* entry = self->cleanup;
    self->cleanup = entry->__next;
    entry->__function(entry->__argument);
  }
  __stele_tls_end();
  __stele_keys_end(self);

  /* No signal handler may run in an ending thread. After is_ending is set, no other thread sends a
   * signal to the ending thread's id: the kernel may soon give this id to another thread. */
  const uint64_t all = ~(uint64_t)0;
  uint64_t before;
  stele_call(ABI_SYS_sigprocmask, SIG_SETMASK, (long)&all, (long)&before, 0, 0, 0);
  __stele_lock(&__stele_threads_lock);
  if (__stele_thread_count == 1) {
    __stele_unlock(&__stele_threads_lock);
    stele_call(ABI_SYS_sigprocmask, SIG_SETMASK, (long)&before, 0, 0, 0, 0);
    exit(0);
  }
  __stele_thread_count--;
  __stele_lock(&self->signal_lock);
  self->is_ending = 1;
  __stele_unlock(&self->signal_lock);
  if (!self->is_first) _reclaim_reent(self->reent);

  int joinable = THREAD_JOINABLE;
  if (!__atomic_compare_exchange_n(&self->state, &joinable, THREAD_ENDED, 0, __ATOMIC_ACQ_REL,
                                   __ATOMIC_ACQUIRE))
    leave(self);
  __stele_unlock(&__stele_threads_lock);
  if (self->is_first) {
    __atomic_store_n(&self->id, 0, __ATOMIC_RELEASE);
    futex_wake(&self->id, EVERYBODY, false);
  }
  for (;;) stele_call(ABI_SYS_thread_exit, 0, 0, 0, 0, 0, 0);
}

/* Releases a thread that has ended, for pthread_join and pthread_detach. */
static void give_back(struct thread* thread) {
  __stele_lock(&__stele_threads_lock);
  leave(thread);
  __stele_unlock(&__stele_threads_lock);
}

static int join(pthread_t which, void** result, clockid_t clock, const struct timespec* deadline) {
  struct thread* thread = (struct thread*)which;
  if (thread == thread_self()) return EDEADLK;
  if (__atomic_load_n(&thread->state, __ATOMIC_RELAXED) == THREAD_DETACHED) return EINVAL;
  pthread_testcancel();
  uint32_t id;
  while ((id = __atomic_load_n(&thread->id, __ATOMIC_ACQUIRE)) != 0) {
    const int error = futex_wait_cancellable(&thread->id, id, false, clock, deadline);
    if (error == ETIMEDOUT || error == EINVAL) return error;
  }
  if (result != NULL) *result = thread->result;
  give_back(thread);
  return 0;
}

int pthread_join(pthread_t thread, void** result) {
  return join(thread, result, CLOCK_REALTIME, NULL);
}
int pthread_clockjoin_np(pthread_t thread, void** result, clockid_t clock,
                         const struct timespec* deadline) {
  return join(thread, result, clock, deadline);
}
int pthread_timedjoin_np(pthread_t thread, void** result, const struct timespec* deadline) {
  return join(thread, result, CLOCK_REALTIME, deadline);
}
int pthread_tryjoin_np(pthread_t which, void** result) {
  struct thread* thread = (struct thread*)which;
  return __atomic_load_n(&thread->id, __ATOMIC_ACQUIRE) != 0 ? EBUSY : pthread_join(which, result);
}

int pthread_detach(pthread_t which) {
  struct thread* thread = (struct thread*)which;
  int state = THREAD_JOINABLE;
  if (__atomic_compare_exchange_n(&thread->state, &state, THREAD_DETACHED, 0, __ATOMIC_ACQ_REL,
                                  __ATOMIC_ACQUIRE))
    return 0;
  if (state == THREAD_DETACHED) return EINVAL;
  give_back(thread);
  return 0;
}

pthread_t pthread_self(void) {
  return (pthread_t)thread_self();
}
int pthread_equal(pthread_t one, pthread_t other) {
  return one == other;
}

int pthread_getcpuclockid(pthread_t which, clockid_t* clock) {
  if (which != pthread_self()) return ENOTSUP; /* a thread can read only its own CPU clock */
  *clock = CLOCK_THREAD_CPUTIME_ID;
  return 0;
}
