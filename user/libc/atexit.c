/* What is called when the program ends: atexit, on_exit and the destructors of C++'s objects, the
 * last one first. In the place of newlib's, which has room for 32 and holds its lock while it
 * calls: a thread that is waited for by such a function could then not end.
 *
 * Entries lie in blocks, the first of which needs no memory of the heap.
 */
#include <stdlib.h>
#include <sys/lock.h>

enum { PER_BLOCK = 32 };
enum type { ATEXIT, ON_EXIT, CXA }; /* newlib's numbers (stdlib/atexit.h) */

struct entry {
  void (*function)(void); /* NULL: was called */
  void* argument;
  void* program;
  int type;
};
struct block {
  struct block* next; /* older */
  unsigned count;
  struct entry entries[PER_BLOCK];
};
static struct block oldest;
static struct block* newest = &oldest;
__LOCK_INIT(static, lock);

void __stele_atexit_lock(void);
void __stele_atexit_unlock(void);
void __stele_atexit_lock(void) {
  __stele_lock(&lock);
}
void __stele_atexit_unlock(void) {
  __stele_unlock(&lock);
}

/* 0, or -1 without memory. */
int __register_exitproc(int type, void (*function)(void), void* argument, void* program);
int __register_exitproc(int type, void (*function)(void), void* argument, void* program) {
  int result = -1;
  __stele_lock(&lock);
  if (newest->count == PER_BLOCK) {
    struct block* block = malloc(sizeof *block);
    if (block != NULL) {
      block->next = newest;
      block->count = 0;
      newest = block;
    }
  }
  if (newest->count < PER_BLOCK) {
    newest->entries[newest->count++] = (struct entry){function, argument, program, type};
    result = 0;
  }
  __stele_unlock(&lock);
  return result;
}

/* The last entry of the program, or of any if that is NULL, and takes it out. */
static int take(void* program, struct entry* entry) {
  int found = 0;
  __stele_lock(&lock);
  for (struct block* block = newest; block != NULL && !found; block = block->next) {
    for (unsigned i = block->count; i > 0 && !found; i--) {
      struct entry* at = &block->entries[i - 1];
      if (at->function != NULL && (program == NULL || at->program == program)) {
        *entry = *at;
        at->function = NULL;
        found = 1;
      }
      if (at->function == NULL && i == block->count) block->count--;
    }
  }
  while (newest->count == 0 && newest->next != NULL) {
    struct block* empty = newest;
    newest = newest->next;
    free(empty);
  }
  __stele_unlock(&lock);
  return found;
}

void __call_exitprocs(int code, void* program);
void __call_exitprocs(int code, void* program) {
  struct entry entry;
  while (take(program, &entry)) {
    switch (entry.type) {
      case ON_EXIT:
        ((void (*)(int, void*))entry.function)(code, entry.argument);
        break;
      case CXA:
        ((void (*)(void*))entry.function)(entry.argument);
        break;
      default:
        entry.function();
    }
  }
}
