/* The heap: its lock and its memory. */
#include <errno.h>
#include <malloc.h>
#include <reent.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include "syscall.h"
#include "thread.h"

__LOCK_INIT(static, lock);

/* The lock is recursive, since realloc holds it when it calls malloc. A process with one thread
 * need not lock the heap: no second thread is created while the first one is in malloc. */
void __malloc_lock(struct _reent* reent) {
  (void)reent;
  if (!__libc_single_threaded) __stele_lock(&lock);
}
void __malloc_unlock(struct _reent* reent) {
  (void)reent;
  if (!__libc_single_threaded) __stele_unlock(&lock);
}

/* The end of the heap as the kernel last returned it; 0 before the first call. */
static uintptr_t heap_end;

int brk(void* end) {
  heap_end = (uintptr_t)SYSCALL(brk, end);
  if (heap_end == (uintptr_t)end) return 0;
  errno = ENOMEM;
  return -1;
}

void* sbrk(ptrdiff_t increment) {
  if (heap_end == 0) heap_end = (uintptr_t)SYSCALL(brk, 0);
  uintptr_t old = heap_end;
  if (increment != 0 && brk((void*)(old + (uintptr_t)increment)) < 0) return (void*)-1;
  return (void*)old;
}

int posix_memalign(void** result, size_t alignment, size_t size) {
  if (alignment < sizeof(void*) || (alignment & (alignment - 1)) != 0) return EINVAL;
  void* memory = memalign(alignment, size);
  if (memory == NULL) return ENOMEM;
  *result = memory;
  return 0;
}
