/* Mutexes, conditions and other objects in memory that several processes share. */
#include <sys/mman.h>

#include "threadtest.h"

enum { PROCESSES = 4, TIMES = 300 };

static struct shared {
  pthread_mutex_t mutex, recursive;
  pthread_cond_t condition;
  pthread_rwlock_t lock;
  pthread_barrier_t barrier;
  sem_t semaphore;
  int turn;
  long counter, one, other, given, got;
} * shared;

static int work(int me) {
  int wrong = 0;
  pthread_barrier_wait(&shared->barrier);
  for (int i = 0; i < TIMES; i++) {
    wrong |= pthread_mutex_lock(&shared->recursive) != 0;
    wrong |= pthread_mutex_lock(&shared->recursive) != 0;
    shared->counter++;
    wrong |= pthread_mutex_unlock(&shared->recursive) != 0;
    wrong |= pthread_mutex_unlock(&shared->recursive) != 0;

    pthread_rwlock_wrlock(&shared->lock);
    shared->one++;
    sched_yield();
    shared->other++;
    pthread_rwlock_unlock(&shared->lock);
    pthread_rwlock_rdlock(&shared->lock);
    wrong |= shared->one != shared->other;
    pthread_rwlock_unlock(&shared->lock);

    if (me % 2) {
      sem_post(&shared->semaphore);
    } else {
      while (sem_wait(&shared->semaphore) != 0) continue;
    }

    pthread_mutex_lock(&shared->mutex);
    while (shared->turn != i * PROCESSES + me)
      pthread_cond_wait(&shared->condition, &shared->mutex);
    shared->turn++;
    pthread_cond_broadcast(&shared->condition);
    pthread_mutex_unlock(&shared->mutex);
  }
  pthread_barrier_wait(&shared->barrier);
  return wrong ? 1 : 42;
}

void test_shared(void) {
  shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  EXPECT(shared != MAP_FAILED);
  if (shared == MAP_FAILED) return;
  pthread_mutexattr_t mutex;
  pthread_condattr_t condition;
  pthread_rwlockattr_t lock;
  pthread_barrierattr_t barrier;
  pthread_mutexattr_init(&mutex);
  pthread_condattr_init(&condition);
  pthread_rwlockattr_init(&lock);
  pthread_barrierattr_init(&barrier);
  EXPECT(pthread_mutexattr_setpshared(&mutex, PTHREAD_PROCESS_SHARED) == 0 &&
         pthread_condattr_setpshared(&condition, PTHREAD_PROCESS_SHARED) == 0 &&
         pthread_rwlockattr_setpshared(&lock, PTHREAD_PROCESS_SHARED) == 0 &&
         pthread_barrierattr_setpshared(&barrier, PTHREAD_PROCESS_SHARED) == 0);
  pthread_mutex_init(&shared->mutex, &mutex);
  pthread_mutexattr_settype(&mutex, PTHREAD_MUTEX_RECURSIVE);
  pthread_mutex_init(&shared->recursive, &mutex);
  pthread_cond_init(&shared->condition, &condition);
  pthread_rwlock_init(&shared->lock, &lock);
  pthread_barrier_init(&shared->barrier, &barrier, PROCESSES);
  sem_init(&shared->semaphore, 1, 0);

  pid_t children[PROCESSES];
  fflush(stdout);
  for (int i = 0; i < PROCESSES; i++) {
    children[i] = fork();
    if (children[i] == 0) _exit(work(i));
  }
  int right = 0;
  for (int i = 0; i < PROCESSES; i++) {
    int status = 0;
    while (waitpid(children[i], &status, 0) < 0 && errno == EINTR) continue;
    right += WIFEXITED(status) && WEXITSTATUS(status) == 42;
  }
  EXPECT(right == PROCESSES);
  EXPECT(shared->counter == PROCESSES * TIMES && shared->one == PROCESSES * TIMES &&
         shared->turn == PROCESSES * TIMES);
  EXPECT(pthread_cond_destroy(&shared->condition) == 0 &&
         pthread_barrier_destroy(&shared->barrier) == 0);
  munmap(shared, sizeof *shared);
}

enum { PAGES = 8, PAGE = 4096 };

static sem_t* semaphore_in(char* memory, int page) {
  return (sem_t*)(memory + page * PAGE);
}

static void* waits(void* semaphore) {
  while (sem_wait(semaphore) != 0) continue;
  return NULL;
}

/* Number of threads of this process that sleep. */
static int sleeping_threads(void) {
  FILE* const file = fopen("/proc/self/threads", "r");
  char state;
  int sleeping = 0;
  while (fscanf(file, "%*u %c%*[^\n]", &state) == 1) sleeping += state == 'S';
  fclose(file);
  return sleeping;
}

/* Makes shared memory with a semaphore in each page, and a thread that waits for each. */
static char* memory_with_waiters(pthread_t* threads) {
  char* const memory =
      mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  for (int i = 0; i < PAGES; i++) {
    sem_init(semaphore_in(memory, i), 1, 0);
    pthread_create(&threads[i], NULL, waits, semaphore_in(memory, i));
  }
  while (sleeping_threads() < PAGES) sched_yield();
  return memory;
}

/* Threads of a process wait in shared memory, which the process unmaps. Another process then gets
 * the same pages. Its wake-ups wake its own threads. */
void test_pages_of_waiters(void) {
  pthread_t threads[PAGES];
  int told[2];
  char byte;
  EXPECT(pipe(told) == 0);
  fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    munmap(memory_with_waiters(threads), PAGES * PAGE);
    write(told[1], "x", 1);
    for (;;) pause();
  }
  EXPECT(read(told[0], &byte, 1) == 1);
  char* const memory = memory_with_waiters(threads);
  int woken = 0;
  for (int i = 0; i < PAGES; i++) sem_post(semaphore_in(memory, i));
  for (int i = 0; i < PAGES; i++) {
    const struct timespec until = in_ms(CLOCK_REALTIME, 5000);
    if (pthread_timedjoin_np(threads[i], NULL, &until) == 0) {
      woken++;
      continue;
    }
    sem_post(semaphore_in(memory, i));
    pthread_join(threads[i], NULL);
  }
  EXPECT(woken == PAGES);
  kill(child, SIGKILL);
  waitpid(child, NULL, 0);
  close(told[0]);
  close(told[1]);
  munmap(memory, PAGES * PAGE);
}
