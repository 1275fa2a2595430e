/* Stacks of threads.
 *
 * One mapping for each, from below: the guard, which nothing may touch, the stack, the thread_local
 * variables, and at the top what the library keeps of a thread. The stacks of threads that have
 * ended are kept for those that come, up to a limit: a mapping costs three calls and the pages that
 * are touched. A thread that ends is still on its stack when it puts it here; the kernel says by a
 * zero in its id when it is not, and until then the stack is neither used nor unmapped.
 *
 * A caller may bring a stack of its own. The same lies at its top, and it is never kept.
 */
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>

#include "start.h"
#include "thread.h"

enum { PAGE = 4096, DEFAULT_STACK = 1024 * 1024, KEPT_MAX = 32 * 1024 * 1024 };

/* What the library has of a thread that it made. */
struct block {
  struct thread thread;
  struct _reent reent;
  void* values[PTHREAD_KEYS_MAX];
};

/* Stacks without a thread, by thread.next, the one that was put last first. Guarded, with their
 * sum, by __stele_threads_lock. */
static struct thread* kept;
static size_t kept_bytes;

static size_t align_up(size_t n, size_t alignment) {
  return (n + alignment - 1) & -alignment;
}

static bool is_left(const struct thread* thread) {
  return __atomic_load_n(&thread->id, __ATOMIC_ACQUIRE) == 0;
}

/* One that has this size exactly and is not in use, or NULL. Caller holds the lock. */
static void* take_kept(size_t size, size_t guard_size) {
  for (struct thread** at = &kept; *at != NULL; at = &(*at)->next) {
    struct thread* thread = *at;
    if (thread->mapping_size != size || thread->guard_size != guard_size || !is_left(thread))
      continue;
    *at = thread->next;
    kept_bytes -= size;
    return thread->mapping;
  }
  return NULL;
}

/* Unmaps what is kept beyond the limit, as far as no thread is on it. Caller holds the lock. */
static void give_back(size_t limit) {
  struct thread** at = &kept;
  while (*at != NULL && kept_bytes > limit) {
    struct thread* thread = *at;
    if (!is_left(thread)) {
      at = &thread->next;
      continue;
    }
    *at = thread->next;
    kept_bytes -= thread->mapping_size;
    munmap(thread->mapping, thread->mapping_size);
  }
}

static void* map(size_t size, size_t guard_size) {
  char* mapping = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) return NULL;
  if (guard_size > 0 && mprotect(mapping, guard_size, PROT_NONE) < 0) {
    munmap(mapping, size);
    return NULL;
  }
  return mapping;
}

/* The thread structure at the top of a stack, with what belongs to it; NULL: there is no room. */
static struct thread* lay_out(char* stack, size_t size) {
  const struct tls_layout layout = __stele_tls_layout();
  const size_t above = sizeof(struct block) - sizeof(struct thread);
  if (size < layout.size + above + PTHREAD_STACK_MIN / 2) return NULL;
  char* memory = (char*)((uintptr_t)(stack + size - layout.size - above) & -(uintptr_t)16);
  struct block* block = (struct block*)__stele_tls_make(&layout, memory);
  memset(&block->reent, 0, above);
  _REENT_INIT_PTR_ZEROED(&block->reent);
  block->thread.reent = &block->reent;
  block->thread.values = block->values;
  block->thread.stack = stack;
  block->thread.stack_size = size;
  block->thread.stack_begin = memory;
  return &block->thread;
}

struct thread* __stele_stack_get(const pthread_attr_t* attributes, int* error) {
  *error = EAGAIN;
  if (attributes != NULL && attributes->__stack != NULL) {
    struct thread* thread = lay_out(attributes->__stack, attributes->__stack_size);
    if (thread == NULL) *error = EINVAL;
    return thread;
  }
  size_t guard_size = PAGE, stack_size = DEFAULT_STACK;
  if (attributes != NULL) {
    if (attributes->__stack_size > SIZE_MAX / 4 || attributes->__guard_size > SIZE_MAX / 4)
      return NULL;
    guard_size = align_up(attributes->__guard_size, PAGE);
    if (attributes->__stack_size != 0) stack_size = attributes->__stack_size;
  }
  /* What the program asks for is for its own use. */
  const size_t size =
      guard_size + align_up(stack_size + __stele_tls_layout().size + sizeof(struct block), PAGE);

  __stele_lock(&__stele_threads_lock);
  char* mapping = take_kept(size, guard_size);
  __stele_unlock(&__stele_threads_lock);
  if (mapping == NULL) mapping = map(size, guard_size);
  if (mapping == NULL) {
    __stele_lock(&__stele_threads_lock);
    give_back(0);
    __stele_unlock(&__stele_threads_lock);
    mapping = map(size, guard_size);
  }
  if (mapping == NULL) return NULL;

  struct thread* thread = lay_out(mapping + guard_size, size - guard_size);
  thread->mapping = mapping;
  thread->mapping_size = size;
  thread->guard_size = guard_size;
  return thread;
}

void __stele_stack_put(struct thread* thread) {
  if (thread->mapping == NULL || thread->is_first) return;
  thread->next = kept;
  kept = thread;
  kept_bytes += thread->mapping_size;
  give_back(KEPT_MAX);
}

void __stele_stacks_after_fork(void) {
  for (struct thread* thread = kept; thread != NULL; thread = thread->next) thread->id = 0;
}
