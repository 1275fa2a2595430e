/* The activities of the threads of threads(). Each activity checks its results.
 * check_thread_activities() compares the counts of shared data at the end. */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "threads.h"

enum { MUTEXES = 6, UNITS = 3, SLOTS = 8 };

static struct guarded {
  pthread_mutex_t mutex;
  bool is_recursive;
  int inside;
  long counter;
  atomic_long expected;
} guarded[MUTEXES];

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static long one, other;
static atomic_long writes;

static sem_t units;
static atomic_int units_taken;

/* Slots with tokens. Each token that is put must be taken once. */
static pthread_mutex_t queue_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t has_token = PTHREAD_COND_INITIALIZER, has_room = PTHREAD_COND_INITIALIZER;
static uint64_t tokens[SLOTS], put_sum, taken_sum;
static int token_count;

static atomic_int detached_alive;
static atomic_long keys_set, keys_destroyed;
static atomic_long signals_sent, signals_handled;
static sem_t handled;
static int never_written[2];

/* Returns a time of day up to `us` microseconds from now. */
static struct timespec within_us(uint64_t us) {
  struct timespec time;
  clock_gettime(CLOCK_REALTIME, &time);
  time.tv_nsec += (long)random_below(us) * 1000;
  time.tv_sec += time.tv_nsec / 1000000000;
  time.tv_nsec %= 1000000000;
  return time;
}
static void turn(void) {
  if (random_one_in(3))
    sched_yield();
  else if (random_one_in(10))
    pause_us((unsigned)random_below(300));
}

/* ---- Locks. */

static void leave(void* argument) {
  struct guarded* at = argument;
  MUST(--at->inside == 0);
  MUST(pthread_mutex_unlock(&at->mutex) == 0);
}

/* The thread may be cancelled only while it holds the mutex. */
void mutexes(void) {
  struct guarded* at = &guarded[random_below(MUTEXES)];
  int error;
  struct timespec soon;
  switch (random_below(4)) {
    case 0:
      while ((error = pthread_mutex_trylock(&at->mutex)) == EBUSY) sched_yield();
      break;
    case 1:
      do {
        soon = within_us(500);
        error = pthread_mutex_timedlock(&at->mutex, &soon);
      } while (error == ETIMEDOUT);
      break;
    default:
      error = pthread_mutex_lock(&at->mutex);
  }
  MUST(error == 0);
  MUST(at->inside++ == 0);
  at->counter++;
  atomic_fetch_add(&at->expected, 1);
  if (at->is_recursive) {
    MUST(pthread_mutex_lock(&at->mutex) == 0);
    turn();
    MUST(pthread_mutex_unlock(&at->mutex) == 0);
  }
  pthread_cleanup_push(leave, at);
  if (random_one_in(4)) {
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
    pause_us((unsigned)random_below(300));
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
  } else {
    turn();
  }
  pthread_cleanup_pop(1);
}

void rwlocks(void) {
  struct timespec soon;
  if (random_one_in(4)) {
    if (random_one_in(3)) {
      MUST(pthread_rwlock_wrlock(&lock) == 0);
    } else if (random_one_in(2)) {
      while (pthread_rwlock_trywrlock(&lock) == EBUSY) sched_yield();
    } else {
      do {
        soon = within_us(500);
      } while (pthread_rwlock_timedwrlock(&lock, &soon) == ETIMEDOUT);
    }
    one++;
    turn();
    other++;
    atomic_fetch_add(&writes, 1);
    MUST(pthread_rwlock_unlock(&lock) == 0);
    return;
  }
  if (random_one_in(3)) {
    MUST(pthread_rwlock_rdlock(&lock) == 0);
  } else if (random_one_in(2)) {
    while (pthread_rwlock_tryrdlock(&lock) == EBUSY) sched_yield();
  } else {
    do {
      soon = within_us(500);
    } while (pthread_rwlock_timedrdlock(&lock, &soon) == ETIMEDOUT);
  }
  const long first = one;
  turn();
  MUST(pthread_rwlock_rdlock(&lock) == 0); /* does not wait for a waiting writer */
  MUST(first == other);
  MUST(pthread_rwlock_unlock(&lock) == 0);
  MUST(pthread_rwlock_unlock(&lock) == 0);
}

static void give_unit(void* argument) {
  (void)argument;
  atomic_fetch_sub(&units_taken, 1);
  MUST(sem_post(&units) == 0);
}
void semaphores(void) {
  struct timespec soon;
  if (random_one_in(3)) {
    do {
      soon = within_us(500);
    } while (sem_timedwait(&units, &soon) != 0 && (errno == ETIMEDOUT || errno == EINTR));
  } else {
    /* A thread that is cancelled in sem_wait has taken no unit. */
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
    while (sem_wait(&units) != 0) MUST(errno == EINTR);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
  }
  pthread_cleanup_push(give_unit, NULL);
  MUST(atomic_fetch_add(&units_taken, 1) < UNITS);
  turn();
  pthread_cleanup_pop(1);
}

static void unlock(void* mutex) {
  MUST(pthread_mutex_unlock(mutex) == 0);
}
/* Puts a token or takes one; the choice is random. A thread that waits in vain gives up after a
 * time or is cancelled. */
void conditions(void) {
  const bool puts = random_one_in(2);
  struct timespec soon = within_us(3000);
  MUST(pthread_mutex_lock(&queue_mutex) == 0);
  pthread_cleanup_push(unlock, &queue_mutex);
  int error = 0;
  while (error == 0 && (puts ? token_count == SLOTS : token_count == 0)) {
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
    error = pthread_cond_timedwait(puts ? &has_room : &has_token, &queue_mutex, &soon);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    MUST(error == 0 || error == ETIMEDOUT);
  }
  if (error == 0 && puts) {
    tokens[token_count] = random_any();
    put_sum += tokens[token_count++];
    (random_one_in(8) ? pthread_cond_broadcast : pthread_cond_signal)(&has_token);
  } else if (error == 0) {
    taken_sum += tokens[--token_count];
    (random_one_in(8) ? pthread_cond_broadcast : pthread_cond_signal)(&has_room);
  }
  pthread_cleanup_pop(1);
}

static pthread_spinlock_t spin;
static long spun;
static atomic_long expected_spun;
void spin_locks(void) {
  for (int i = 0; i < 20; i++) {
    pthread_spin_lock(&spin);
    spun++;
    pthread_spin_unlock(&spin);
  }
  atomic_fetch_add(&expected_spun, 20);
}

/* ---- Activities that make threads. */

/* Two threads hand a number to each other. A lost wake-up would show as a hang. */
struct hand_over {
  pthread_mutex_t mutex;
  pthread_cond_t condition;
  int number, limit;
};
static void hand_over(struct hand_over* at, int parity) {
  MUST(pthread_mutex_lock(&at->mutex) == 0);
  while (at->number < at->limit) {
    while (at->number % 2 != parity && at->number < at->limit)
      MUST(pthread_cond_wait(&at->condition, &at->mutex) == 0);
    if (at->number < at->limit) at->number++;
    MUST(pthread_cond_signal(&at->condition) == 0);
  }
  MUST(pthread_mutex_unlock(&at->mutex) == 0);
}
static void* hand_back(void* argument) {
  hand_over(argument, 1);
  return argument;
}
void hand_overs(void) {
  struct hand_over at = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0,
                         (int)random_below(50) + 2};
  pthread_t thread;
  if (!begin(&thread, hand_back, &at)) return;
  hand_over(&at, 0);
  MUST(join(thread) == &at);
  MUST(at.number == at.limit && pthread_cond_destroy(&at.condition) == 0 &&
       pthread_mutex_destroy(&at.mutex) == 0);
}

struct meeting {
  pthread_barrier_t barrier;
  atomic_bool is_ready;
  atomic_int serial, calls;
  pthread_once_t once;
};
static _Thread_local atomic_int* calls;
static void call_once(void) {
  turn();
  atomic_fetch_add(calls, 1);
}
static void* meet(void* argument) {
  struct meeting* at = argument;
  while (!atomic_load(&at->is_ready)) sched_yield();
  for (int i = 0; i < 3; i++) {
    if (pthread_barrier_wait(&at->barrier) == PTHREAD_BARRIER_SERIAL_THREAD)
      atomic_fetch_add(&at->serial, 1);
  }
  calls = &at->calls;
  MUST(pthread_once(&at->once, call_once) == 0);
  MUST(atomic_load(&at->calls) == 1);
  return argument;
}
void barriers(void) {
  struct meeting at = {.once = PTHREAD_ONCE_INIT};
  pthread_t threads[4];
  unsigned count = 0;
  for (const uint64_t wanted = 1 + random_below(4); count < wanted; count++)
    if (!begin(&threads[count], meet, &at)) break;
  MUST(pthread_barrier_init(&at.barrier, NULL, count + 1) == 0);
  atomic_store(&at.is_ready, true);
  meet(&at);
  MUST(pthread_barrier_destroy(&at.barrier) == 0);
  for (unsigned i = 0; i < count; i++) MUST(join(threads[i]) == &at);
  MUST(atomic_load(&at.serial) == 3);
}

static void* end_detached(void* argument) {
  turn();
  atomic_fetch_sub(&detached_alive, 1);
  return argument;
}
void detached(void) {
  pthread_t thread;
  for (uint64_t i = random_below(4); i < 4; i++) {
    atomic_fetch_add(&detached_alive, 1);
    if (begin(&thread, end_detached, NULL))
      MUST(pthread_detach(thread) == 0);
    else
      atomic_fetch_sub(&detached_alive, 1);
  }
}

static void destroy_value(void* value) {
  MUST((uintptr_t)value % 16 == 8);
  atomic_fetch_add(&keys_destroyed, 1);
}
static void* set_value(void* argument) {
  const pthread_key_t* key = argument;
  const void* value = (void*)((uintptr_t)random_any() << 4 | 8);
  MUST(pthread_getspecific(*key) == NULL);
  MUST(pthread_setspecific(*key, value) == 0);
  atomic_fetch_add(&keys_set, 1);
  turn();
  MUST(pthread_getspecific(*key) == value);
  if (random_one_in(3)) pthread_exit(argument);
  return argument;
}
void keys(void) {
  pthread_key_t key;
  pthread_t threads[3];
  if (pthread_key_create(&key, destroy_value) != 0) return; /* the keys may be used up */
  int count = 0;
  while (count < 3 && begin(&threads[count], set_value, &key)) count++;
  for (int i = 0; i < count; i++) MUST(join(threads[i]) == &key);
  MUST(pthread_key_delete(key) == 0);
}

/* ---- Cancellation of threads that wait for ever. */

struct victim {
  pthread_mutex_t mutex;
  pthread_cond_t never;
  sem_t none;
  pthread_t sleeper;
  int how;
  atomic_int cleaned;
};
static void clean(void* argument) {
  struct victim* at = argument;
  atomic_fetch_add(&at->cleaned, 1);
}
static void* sleep_for_ever(void* argument) {
  for (;;) sleep(1000);
  return argument;
}
static void* wait_for_ever(void* argument) {
  struct victim* at = argument;
  struct timespec far = within_us(1);
  far.tv_sec += 3600;
  struct pollfd fd = {.fd = never_written[0], .events = POLLIN};
  char byte;
  pthread_cleanup_push(clean, at);
  if (at->how == 5 && !begin(&at->sleeper, sleep_for_ever, NULL)) at->how = 8;
  turn();
  pthread_mutex_lock(&at->mutex);
  pthread_cleanup_push(unlock, &at->mutex);
  if (at->how == 0) {
    for (;;) pthread_cond_wait(&at->never, &at->mutex);
  } else if (at->how == 1) {
    for (;;) pthread_cond_timedwait(&at->never, &at->mutex, &far);
  }
  pthread_cleanup_pop(1);
  for (;;) {
    switch (at->how) {
      case 2:
        sem_wait(&at->none);
        break;
      case 3:
        read(never_written[0], &byte, 1);
        break;
      case 4:
        poll(&fd, 1, -1);
        break;
      case 5:
        pthread_join(at->sleeper, NULL);
        break;
      case 6:
        pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
        for (;;) continue;
      case 7:
        pause();
        break;
      default:
        sleep_for_ever(NULL);
    }
  }
  pthread_cleanup_pop(1);
  return NULL;
}
void cancels(void) {
  struct victim at = {.mutex = PTHREAD_MUTEX_INITIALIZER,
                      .never = PTHREAD_COND_INITIALIZER,
                      .how = (int)random_below(9)};
  sem_init(&at.none, 0, 0);
  pthread_t thread;
  if (!begin(&thread, wait_for_ever, &at)) return;
  turn();
  if (random_one_in(3)) pthread_cond_signal(&at.never);
  if (random_one_in(3)) MUST(pthread_kill(thread, SIGUSR1) == 0);
  MUST(pthread_cancel(thread) == 0);
  if (random_one_in(2)) pthread_cond_broadcast(&at.never);
  MUST(join(thread) == PTHREAD_CANCELED);
  MUST(atomic_load(&at.cleaned) == 1 && pthread_mutex_trylock(&at.mutex) == 0);
  if (at.how == 5) {
    MUST(pthread_cancel(at.sleeper) == 0);
    MUST(join(at.sleeper) == PTHREAD_CANCELED);
  }
}

/* ---- Signals. */

static void handle(int signal) {
  const int error = errno;
  (void)signal;
  atomic_fetch_add(&signals_handled, 1);
  MUST(sem_post(&handled) == 0); /* sem_post is async-signal-safe */
  errno = error;
}
static _Thread_local atomic_int* taken_signals;
static void take(int signal) {
  (void)signal;
  atomic_fetch_add(taken_signals, 1);
}
struct target {
  atomic_int taken, ready;
  int count;
};
static void* be_target(void* argument) {
  struct target* at = argument;
  taken_signals = &at->taken;
  atomic_store(&at->ready, 1);
  for (int seen = 0; seen < at->count;) {
    const int now = atomic_load(&at->taken);
    if (now == seen) {
      sched_yield();
      continue;
    }
    seen = now;
    atomic_store(&at->ready, seen + 1);
  }
  return argument;
}
void thread_signals(void) {
  struct target at = {.count = 1 + (int)random_below(5)};
  pthread_t thread;
  if (!begin(&thread, be_target, &at)) return;
  for (int i = 0; i < at.count; i++) {
    while (atomic_load(&at.ready) != i + 1) sched_yield();
    MUST(pthread_kill(thread, SIGUSR2) == 0);
  }
  MUST(join(thread) == &at);
  MUST(atomic_load(&at.taken) == at.count);
  if (random_one_in(4)) {
    /* One thread takes the signal, unless SIGUSR1 is already pending for the process. */
    MUST(kill(getpid(), SIGUSR1) == 0);
  } else {
    MUST(raise(SIGUSR1) == 0);
    atomic_fetch_add(&signals_sent, 1);
  }
}

/* ---- Processes, and the library. */

static void* end_at_once(void* argument) {
  return argument;
}
void forks(void) {
  const pid_t child = fork();
  if (child < 0) {
    MUST(errno == EAGAIN || errno == ENOMEM);
    return;
  }
  if (child == 0) {
    /* The child calls functions that take locks of the C library. These calls must not hang, even
     * if another thread held such a lock at the fork: that thread exists only in the parent. */
    free(malloc(1 + random_below(5000)));
    char text[32];
    snprintf(text, sizeof text, "%d %f", (int)getpid(), 0.5);
    for (uint64_t i = random_below(3); i < 3; i++) {
      pthread_t thread;
      if (pthread_create(&thread, NULL, end_at_once, text) != 0) break;
      if (random_one_in(2))
        pthread_join(thread, NULL);
      else
        pthread_detach(thread);
    }
    if (random_one_in(3)) execl("/bin/sh", "sh", "-c", "exit 42", NULL);
    if (random_one_in(2)) {
      FILE* stream = fopen("/dev/null", "w");
      if (stream != NULL) fclose(stream);
      setenv("CHILD", text, 1);
    }
    _exit(42);
  }
  check_end(child, 42, "a child of a thread");
}

void heap(void) {
  unsigned char* memory[10];
  size_t sizes[10];
  for (int i = 0; i < 10; i++) {
    sizes[i] = 1 + random_below(random_one_in(10) ? 60000 : 600);
    memory[i] = malloc(sizes[i]);
    if (memory[i] != NULL) memset(memory[i], i, sizes[i]);
  }
  turn();
  for (int i = 0; i < 10; i++) {
    if (memory[i] == NULL) continue;
    MUST(memory[i][0] == i && memory[i][sizes[i] - 1] == i);
    free(memory[i]);
  }
}

void streams(void) {
  FILE* stream = fopen("/dev/null", "w");
  if (stream == NULL) return; /* the descriptors may be used up */
  MUST(fprintf(stream, "%s %d %.3f\n", "text", 12, 0.25) == 14);
  MUST(fclose(stream) == 0);
  if (setenv("STRESS", "value", 1) == 0) MUST(getenv("STRESS") != NULL);
}

void short_pipes(void) {
  int ends[2];
  if (pipe(ends) != 0) {
    MUST(errno == EMFILE || errno == ENFILE || errno == ENOMEM);
    return;
  }
  char text[8] = "";
  MUST(write(ends[1], "abcdef", 7) == 7 && read(ends[0], text, 7) == 7 &&
       strcmp(text, "abcdef") == 0);
  close(ends[0]);
  close(ends[1]);
}

void maps(void) {
  const size_t size = (1 + random_below(16)) << 12;
  char* memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return;
  const char mark = (char)random_any();
  memset(memory, mark, size);
  if (random_one_in(2)) mprotect(memory, size, PROT_READ);
  for (size_t at = 0; at < size; at += 512) MUST(memory[at] == mark);
  munmap(memory, size);
}

/* ---- All. */

bool prepare_thread_activities(void) {
  const int types[] = {PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_RECURSIVE, PTHREAD_MUTEX_ERRORCHECK};
  for (int i = 0; i < MUTEXES; i++) {
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    MUST(pthread_mutexattr_settype(&attributes, types[i % 3]) == 0);
    MUST(pthread_mutex_init(&guarded[i].mutex, &attributes) == 0);
    guarded[i].is_recursive = types[i % 3] == PTHREAD_MUTEX_RECURSIVE;
  }
  MUST(sem_init(&units, 0, UNITS) == 0);
  MUST(sem_init(&handled, 0, 0) == 0);
  MUST(pthread_spin_init(&spin, PTHREAD_PROCESS_PRIVATE) == 0);
  struct sigaction action = {.sa_handler = handle, .sa_flags = SA_RESTART};
  sigaction(SIGUSR1, &action, NULL);
  action.sa_handler = take;
  sigaction(SIGUSR2, &action, NULL);
  return pipe(never_written) == 0;
}

void check_thread_activities(void) {
  /* Waits until all other threads, detached or not, have finished their functions. */
  while (atomic_load(&detached_alive) > 0 ||
         atomic_load(&threads_ended) < atomic_load(&threads_made))
    sched_yield();
  MUST(atomic_load(&detached_alive) == 0);
  MUST(atomic_load(&threads_ended) == atomic_load(&threads_made));
  for (int i = 0; i < MUTEXES; i++) {
    MUST(guarded[i].counter == atomic_load(&guarded[i].expected) && guarded[i].inside == 0);
    MUST(pthread_mutex_destroy(&guarded[i].mutex) == 0);
  }
  MUST(one == other && one == atomic_load(&writes) && pthread_rwlock_destroy(&lock) == 0);
  int value = -1;
  MUST(sem_getvalue(&units, &value) == 0 && value == UNITS && atomic_load(&units_taken) == 0);
  for (; token_count > 0; token_count--) taken_sum += tokens[token_count - 1];
  MUST(put_sum == taken_sum);
  MUST(pthread_cond_destroy(&has_token) == 0 && pthread_cond_destroy(&has_room) == 0);
  MUST(spun == atomic_load(&expected_spun));
  MUST(atomic_load(&keys_set) == atomic_load(&keys_destroyed));
  /* signals_sent counts the signals of raise(), each of which is handled. It does not count other
   * signals: signals to the process may merge, and a thread may be cancelled before it handles a
   * signal. */
  MUST(sem_getvalue(&handled, &value) == 0 && value == atomic_load(&signals_handled));
  MUST(atomic_load(&signals_handled) >= atomic_load(&signals_sent));
}
