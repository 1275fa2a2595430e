/* pthread_once. If cancellation or an exception ends the function, the function counts as not run:
 * the next caller runs it. C++ exceptions pass through this file, so it is compiled with
 * -fexceptions (user/user.mk). The two routines of the unwinder that -fexceptions needs are weak:
 * only a program that can throw exceptions is linked with the unwinder. */
#include <pthread.h>

#include "futex.h"

__asm__(".weak __gcc_personality_v0, _Unwind_Resume");

enum { NOT_YET, RUNS, RUNS_AND_WAITED_FOR, DONE };

static void set(pthread_once_t* once, int state) {
  if (__atomic_exchange_n(once, state, __ATOMIC_ACQ_REL) == RUNS_AND_WAITED_FOR)
    futex_wake((unsigned*)once, EVERYBODY, false);
}
static void undo(void* once) {
  set(once, NOT_YET);
}

/* An attempt to run the function, to be undone if the function does not return. */
struct attempt {
  pthread_once_t* once; /* NULL: the function has returned */
  struct _pthread_cleanup cancelled;
};
static void after_exception(struct attempt* attempt) {
  if (attempt->once != NULL) _pthread_cleanup_pop(&attempt->cancelled, 1);
}
static void run(pthread_once_t* once, void (*function)(void)) {
  __attribute__((cleanup(after_exception))) struct attempt attempt = {.once = once};
  _pthread_cleanup_push(&attempt.cancelled, undo, once);
  function();
  _pthread_cleanup_pop(&attempt.cancelled, 0);
  attempt.once = NULL;
  set(once, DONE);
}

int pthread_once(pthread_once_t* once, void (*function)(void)) {
  int state = __atomic_load_n(once, __ATOMIC_ACQUIRE);
  while (state != DONE) {
    if (state == NOT_YET) {
      if (!__atomic_compare_exchange_n(once, &state, RUNS, 0, __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE))
        continue;
      run(once, function);
      return 0;
    }
    if (state == RUNS && !__atomic_compare_exchange_n(once, &state, RUNS_AND_WAITED_FOR, 0,
                                                      __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE))
      continue;
    futex_wait((unsigned*)once, RUNS_AND_WAITED_FOR, false, CLOCK_MONOTONIC, NULL);
    state = __atomic_load_n(once, __ATOMIC_ACQUIRE);
  }
  return 0;
}
