/* The list of functions to call at the end of the program: functions registered with atexit or
 * on_exit, and destructors of C++ objects. The last registered function is called first.
 *
 * newlib's own list, which this list replaces, has room for only 32 functions and is locked during
 * the calls. A called function that waited for another thread would deadlock with that thread if
 * the thread registered a function.
 *
 * Entries are stored in blocks. The first block is static, so that it needs no heap memory.
 */
#include <stdlib.h>
#include <sys/lock.h>

enum { PER_BLOCK = 32 };
enum type { ATEXIT, ON_EXIT, CXA }; /* newlib's numbers (stdlib/atexit.h) */

struct entry {
  void (*function)(void); /* NULL once take() has returned the entry */
  void* argument;
  void* program; /* __cxa_atexit's handle of the program that registered the function */
  int type;      /* ATEXIT, ON_EXIT or CXA */
};
struct block {
  struct block* next; /* the next older block */
  unsigned count;     /* entries in use */
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

/* Returns 0, or -1 if there is no memory for a block. */
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

/* Copies the last registered entry of the program (of any program if `program` is NULL) to `entry`,
 * and removes it from the list. Returns 0 if there is none. */
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
