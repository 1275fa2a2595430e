/* Stacks of threads.
 *
 * The stack of a thread is one mapping. From its lowest address up it has an inaccessible guard,
 * the stack, the thread_local variables, and the library's data of the thread. Stacks of threads
 * that have ended are kept for new threads, up to a limit: a new mapping costs three system calls
 * and the page faults. An ending thread still runs on its stack when it puts the stack into the
 * list of kept stacks. The kernel zeroes the thread's id when the thread no longer uses the stack;
 * until then the stack is neither used again nor unmapped.
 *
 * pthread_attr_setstack gives a thread memory of the program as its stack. The top of this memory
 * has the layout described above. The library does not keep such memory for other threads.
 */
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>

#include "start.h"
#include "thread.h"

enum { PAGE = 4096, DEFAULT_STACK = 1024 * 1024, KEPT_MAX = 32 * 1024 * 1024 };

/* The library's data of a thread, at the top of its stack. The first thread of a process has no
 * such block. */
struct block {
  struct thread thread;
  struct _reent reent;
  void* values[PTHREAD_KEYS_MAX];
};

/* The list of kept stacks, linked by thread.next, most recent first. __stele_threads_lock guards
 * the list and its total size. */
static struct thread* kept;
static size_t kept_bytes; /* the sum of mapping_size of the stacks in `kept` */

static size_t align_up(size_t n, size_t alignment) {
  return (n + alignment - 1) & -alignment;
}

static bool is_left(const struct thread* thread) {
  return __atomic_load_n(&thread->id, __ATOMIC_ACQUIRE) == 0;
}

/* Searches the list for a stack that is no longer in use and has exactly these sizes. Removes this
 * stack from the list and returns its mapping. Returns NULL if there is no such stack. Caller holds
 * __stele_threads_lock. */
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

/* Unmaps kept stacks until at most `limit` bytes are kept. Skips stacks that a thread still uses.
 * Caller holds __stele_threads_lock. */
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

/* Sets up the thread-local variables, the thread structure and the library's data at the top of a
 * stack. Returns NULL if the stack is too small. */
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
  /* The program gets the size that it requested; the library's data need additional memory. */
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
