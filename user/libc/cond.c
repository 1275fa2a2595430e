/* Conditions.
 *
 * A condition that is not shared between processes has a list of its waiters. Each waiter has a
 * node in its stack frame, and sleeps on a word of this node. pthread_cond_signal takes the first
 * waiter off the list, pthread_cond_broadcast takes all; both wake the first waiter taken. Each
 * woken waiter locks the mutex and then wakes the next one, so that the waiters do not all wake at
 * once only to find the mutex locked. A thread that begins to wait after a signal cannot receive
 * that signal. (The algorithm is musl's, src/thread/pthread_cond_timedwait.c, without requeueing.)
 *
 *   states of a waiter:  WAITING -> SIGNALLED (by a signal) | LEAVING (by itself)
 *
 * A waiter may time out, or be cancelled, while a signal arrives. The first change of its state
 * decides. A SIGNALLED waiter's wait succeeds in spite of the timeout, so no signal is lost. A
 * LEAVING waiter takes itself off the list. A pthread_cond_signal or pthread_cond_broadcast that
 * finds a LEAVING waiter in the list returns only when that waiter is off the list. So a condition
 * may be destroyed right after a broadcast: when the broadcast returns, no waiter touches the
 * condition any more.
 *
 * A condition that is shared between processes has no list, because a process cannot read another's
 * stack. Its waiters sleep on a sequence number. A signal increases this number if there are
 * waiters.
 */
#include <errno.h>
#include <pthread.h>

#include "futex.h"
#include "thread.h"

enum { KIND_MONOTONIC = 1 };
#define DESTROYED 0x80000000u

int __stele_mutex_check(const pthread_mutex_t* mutex);

enum state { WAITING, SIGNALLED, LEAVING };
enum { ASLEEP, AWAKE };

struct waiter {
  struct waiter *next, *previous; /* in the list; `next` also links the waiters to be woken */
  int state;                      /* an enum state */
  unsigned turn;                  /* the word that the waiter sleeps on: ASLEEP or AWAKE */
  /* Used by a LEAVING waiter: points to the local variable `leaving` of the signal_some() call that
   * waits for this waiter. NULL if no call waits. */
  unsigned* leaving;
};

/* The lock of the list: 0 is free, 1 is held, 2 is held and may have waiters. The lock is held for
 * a few instructions. A broadcast holds the lock for one pass through the list. */
static void lock(pthread_cond_t* condition) {
  unsigned expected = 0;
  if (__atomic_compare_exchange_n(&condition->__lock, &expected, 1, 0, __ATOMIC_ACQUIRE,
                                  __ATOMIC_RELAXED))
    return;
  while (__atomic_exchange_n(&condition->__lock, 2, __ATOMIC_ACQUIRE) != 0)
    futex_wait(&condition->__lock, 2, false, CLOCK_MONOTONIC, NULL);
}
static void unlock(pthread_cond_t* condition) {
  if (__atomic_exchange_n(&condition->__lock, 0, __ATOMIC_RELEASE) == 2)
    futex_wake(&condition->__lock, 1, false);
}

static void append(pthread_cond_t* condition, struct waiter* waiter) {
  waiter->previous = condition->__last;
  if (waiter->previous != NULL)
    waiter->previous->next = waiter;
  else
    __atomic_store_n(&condition->__first, waiter, __ATOMIC_RELAXED);
  condition->__last = waiter;
}
static void take_off(pthread_cond_t* condition, struct waiter* waiter) {
  if (waiter->previous != NULL)
    waiter->previous->next = waiter->next;
  else
    __atomic_store_n(&condition->__first, waiter->next, __ATOMIC_RELAXED);
  if (waiter->next != NULL)
    waiter->next->previous = waiter->previous;
  else
    condition->__last = waiter->previous;
  waiter->next = waiter->previous = NULL;
}

static void wake(struct waiter* waiter) {
  __atomic_store_n(&waiter->turn, AWAKE, __ATOMIC_RELEASE);
  /* The waiter may have returned already, and its frame may be in use for something else. A thread
   * that now sleeps on this word for another reason is woken needlessly, and checks its condition
   * again. */
  futex_wake(&waiter->turn, 1, false);
}

static bool change_state(struct waiter* waiter, int to) {
  int expected = WAITING;
  return __atomic_compare_exchange_n(&waiter->state, &expected, to, 0, __ATOMIC_ACQ_REL,
                                     __ATOMIC_ACQUIRE);
}

/* Signals the first `count` waiters and wakes the first one. Waits until LEAVING waiters that it
 * finds in the list are off the list. */
static void signal_some(pthread_cond_t* condition, unsigned count) {
  /* A relaxed load is enough. This call only has to wake waiters that unlocked the mutex before the
   * caller locked it, and the caller sees the list entries of these waiters. */
  if (__atomic_load_n(&condition->__first, __ATOMIC_RELAXED) == NULL) return;
  struct waiter *first = NULL, *last = NULL;
  unsigned leaving = 0; /* LEAVING waiters that this call waits for */
  lock(condition);
  for (struct waiter *waiter = condition->__first, *next; waiter != NULL && count > 0;
       waiter = next) {
    next = waiter->next;
    if (!change_state(waiter, SIGNALLED)) {
      if (waiter->leaving == NULL) { /* no other signal waits for this waiter yet */
        waiter->leaving = &leaving;
        leaving++;
      }
      continue;
    }
    take_off(condition, waiter);
    if (last != NULL)
      last->next = waiter;
    else
      first = waiter;
    last = waiter;
    count--;
  }
  unlock(condition);
  unsigned left;
  while ((left = __atomic_load_n(&leaving, __ATOMIC_ACQUIRE)) != 0)
    futex_wait(&leaving, left, false, CLOCK_MONOTONIC, NULL);
  if (first != NULL) wake(first);
}

/* Called in cancel mode CANCEL_REPORTED or CANCEL_DISABLED. Returns 0, ETIMEDOUT, EINVAL or
 * ECANCELED, or an error of pthread_mutex_lock. */
static int wait_in_list(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                        const struct timespec* deadline) {
  struct waiter waiter = {.state = WAITING, .turn = ASLEEP};
  lock(condition);
  append(condition, &waiter);
  unlock(condition);
  pthread_mutex_unlock(mutex);

  int error = 0;
  while (__atomic_load_n(&waiter.turn, __ATOMIC_ACQUIRE) == ASLEEP) {
    error = futex_wait_cancellable(&waiter.turn, ASLEEP, false, clock, deadline);
    if (error != 0 && error != EAGAIN && error != EINTR) break;
    error = 0;
  }

  if (change_state(&waiter, LEAVING)) {
    /* The condition still exists: signal_some() waits until this LEAVING waiter is off the list. */
    lock(condition);
    take_off(condition, &waiter);
    unlock(condition);
    if (waiter.leaving != NULL && __atomic_fetch_sub(waiter.leaving, 1, __ATOMIC_ACQ_REL) == 1)
      futex_wake(waiter.leaving, 1, false);
    const int mutex_error = pthread_mutex_lock(mutex);
    return mutex_error != 0 ? mutex_error : error;
  }
  /* This waiter is SIGNALLED. If it is the first waiter of its signal, the signalling thread wakes
   * it. Otherwise its predecessor wakes it, after the predecessor has locked the mutex. */
  while (__atomic_load_n(&waiter.turn, __ATOMIC_ACQUIRE) == ASLEEP)
    futex_wait(&waiter.turn, ASLEEP, false, CLOCK_MONOTONIC, NULL);
  const int mutex_error = pthread_mutex_lock(mutex);
  if (waiter.next != NULL) wake(waiter.next);
  return mutex_error;
}

static int wait_shared(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                       const struct timespec* deadline) {
  __atomic_fetch_add(&condition->__waiters, 1, __ATOMIC_SEQ_CST);
  const unsigned sequence = __atomic_load_n(&condition->__sequence, __ATOMIC_SEQ_CST);
  pthread_mutex_unlock(mutex);
  int error = 0;
  while (error == 0 && __atomic_load_n(&condition->__sequence, __ATOMIC_ACQUIRE) == sequence) {
    error = futex_wait_cancellable(&condition->__sequence, sequence, true, clock, deadline);
    if (error == EAGAIN || error == EINTR) error = 0;
  }
  /* If a signal came after the timeout, it may have been meant for this waiter. So the wait
   * succeeds. */
  if (__atomic_load_n(&condition->__sequence, __ATOMIC_ACQUIRE) != sequence) error = 0;
  if (__atomic_fetch_sub(&condition->__waiters, 1, __ATOMIC_ACQ_REL) == (DESTROYED | 1))
    futex_wake(&condition->__waiters, 1, true);
  const int mutex_error = pthread_mutex_lock(mutex);
  return mutex_error != 0 ? mutex_error : error;
}

static void signal_shared(pthread_cond_t* condition, unsigned count) {
  if (__atomic_load_n(&condition->__waiters, __ATOMIC_SEQ_CST) == 0) return;
  __atomic_fetch_add(&condition->__sequence, 1, __ATOMIC_SEQ_CST);
  futex_wake(&condition->__sequence, count, true);
}

static int wait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                const struct timespec* deadline) {
  int error = __stele_mutex_check(mutex);
  if (error != 0) return error;
  if (!is_time(deadline)) return EINVAL;
  pthread_testcancel();
  /* POSIX: a cancelled waiter holds the mutex when its cleanup handlers run. So the wait only
   * reports the cancellation, and the thread ends after it has locked the mutex. */
  const enum cancel_mode mode = SELF(cancel_mode);
  if (mode == CANCEL_ENABLED) SELF(cancel_mode) = CANCEL_REPORTED;
  error = (condition->__kind & KIND_SHARED ? wait_shared : wait_in_list)(condition, mutex, clock,
                                                                         deadline);
  SELF(cancel_mode) = mode;
  if (error == ECANCELED) {
    pthread_testcancel();
    error = 0;
  }
  return error;
}

int pthread_cond_wait(pthread_cond_t* restrict condition, pthread_mutex_t* restrict mutex) {
  return wait(condition, mutex, CLOCK_MONOTONIC, NULL);
}
int pthread_cond_timedwait(pthread_cond_t* restrict condition, pthread_mutex_t* restrict mutex,
                           const struct timespec* restrict deadline) {
  return wait(condition, mutex,
              condition->__kind & KIND_MONOTONIC ? CLOCK_MONOTONIC : CLOCK_REALTIME, deadline);
}
int pthread_cond_clockwait(pthread_cond_t* restrict condition, pthread_mutex_t* restrict mutex,
                           clockid_t clock, const struct timespec* restrict deadline) {
  if (!is_wait_clock(clock)) return EINVAL;
  return wait(condition, mutex, clock, deadline);
}

int pthread_cond_signal(pthread_cond_t* condition) {
  (condition->__kind & KIND_SHARED ? signal_shared : signal_some)(condition, 1);
  return 0;
}
int pthread_cond_broadcast(pthread_cond_t* condition) {
  (condition->__kind & KIND_SHARED ? signal_shared : signal_some)(condition, EVERYBODY);
  return 0;
}

int pthread_cond_init(pthread_cond_t* restrict condition,
                      const pthread_condattr_t* restrict attributes) {
  *condition = (pthread_cond_t){.__kind = attributes != NULL ? attributes->__kind : 0};
  return 0;
}
/* Waits until the signalled waiters of a shared condition no longer use it. */
int pthread_cond_destroy(pthread_cond_t* condition) {
  if (!(condition->__kind & KIND_SHARED)) return condition->__first == NULL ? 0 : EBUSY;
  unsigned waiters = __atomic_or_fetch(&condition->__waiters, DESTROYED, __ATOMIC_SEQ_CST);
  while (waiters != DESTROYED) {
    futex_wait(&condition->__waiters, waiters, true, CLOCK_MONOTONIC, NULL);
    waiters = __atomic_load_n(&condition->__waiters, __ATOMIC_ACQUIRE);
  }
  return 0;
}

int pthread_condattr_init(pthread_condattr_t* attributes) {
  attributes->__kind = 0;
  return 0;
}
int pthread_condattr_destroy(pthread_condattr_t* attributes) {
  (void)attributes;
  return 0;
}
int pthread_condattr_getclock(const pthread_condattr_t* restrict attributes,
                              clockid_t* restrict clock) {
  *clock = attributes->__kind & KIND_MONOTONIC ? CLOCK_MONOTONIC : CLOCK_REALTIME;
  return 0;
}
int pthread_condattr_setclock(pthread_condattr_t* attributes, clockid_t clock) {
  if (!is_wait_clock(clock)) return EINVAL;
  attributes->__kind = (attributes->__kind & ~(unsigned)KIND_MONOTONIC) |
                       (clock == CLOCK_MONOTONIC ? KIND_MONOTONIC : 0);
  return 0;
}
