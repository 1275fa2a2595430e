/* Thread-local storage.
 *
 * FS base is the thread pointer (System V ABI, AMD64 supplement; variant II of Drepper, "ELF
 * Handling For Thread-Local Storage"). The program's __thread variables lie below the thread
 * pointer, at offsets that the linker has fixed. The library's structure of a thread begins at the
 * thread pointer (thread.h). The ABI fixes two of its fields:
 *
 *   fs:0     the thread pointer itself, from which code computes addresses
 *   fs:0x28  the canary of -fstack-protector
 *
 * The kernel saves and restores FS base with each task. The system call set_tls sets it, since the
 * instruction wrfsbase is disabled. All threads, and the children of a fork, have the same canary.
 */
#include <elf.h>
#include <reent.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "start.h"
#include "syscall.h"
#include "thread.h"

/* Returns newlib's state of the thread: errno, strtok's position and so on. */
struct _reent* __getreent(void) {
  return SELF(reent);
}

static size_t align_up(size_t n, size_t alignment) {
  return (n + alignment - 1) & -alignment;
}

struct tls_layout __stele_tls_layout(void) {
  struct tls_layout layout = {.alignment = 64};
  for (size_t i = 0; i < __stele_header_count; i++) {
    const Elf64_Phdr* header = &__stele_headers[i];
    if (header->p_type != PT_TLS) continue;
    layout.image = (const void*)header->p_vaddr;
    layout.image_size = header->p_filesz;
    layout.offset = align_up(header->p_vaddr + header->p_memsz, header->p_align) - header->p_vaddr;
    if (header->p_align > layout.alignment) layout.alignment = header->p_align;
  }
  layout.size = layout.offset + layout.alignment - 1 + sizeof(struct thread);
  return layout;
}

struct thread* __stele_tls_make(const struct tls_layout* layout, void* memory) {
  struct thread* thread =
      (struct thread*)align_up((uintptr_t)memory + layout->offset, layout->alignment);
  char* variables = (char*)thread - layout->offset;
  memset(variables, 0, layout->offset + sizeof *thread);
  memcpy(variables, layout->image, layout->image_size);
  thread->self = thread;
  const uintptr_t* random = (const uintptr_t*)getauxval(AT_RANDOM);
  /* The canary's lowest byte is zero, so that a string function that overruns its buffer stops
   * there. */
  if (random != NULL) thread->canary = random[0] & ~(uintptr_t)0xff;
  return thread;
}

void __stele_tls_start(const struct tls_layout* layout, void* memory) {
  struct thread* thread = __stele_tls_make(layout, memory);
  thread->lock_id = 1;
  thread->is_first = 1;
  thread->reent = _GLOBAL_REENT;
  stele_call(ABI_SYS_set_tls, (long)thread, 0, 0, 0, 0, 0);
}

/* Called by functions compiled with -fstack-protector. */
_Noreturn void __stack_chk_fail(void) {
  static const char message[] = "*** stack smashing detected ***: terminated\n";
  write(STDERR_FILENO, message, sizeof message - 1);
  abort();
}

/* A list of destructors of C++'s thread_local variables, the last registered first. */
struct cxx_destructor {
  struct cxx_destructor* next;
  void (*function)(void* object);
  void* object;
};

/* C++ programs call this function when a thread_local variable has been constructed. `program`
 * identifies a shared library, and is ignored since there are none. Returns 0, or -1 if out of
 * memory. */
int __cxa_thread_atexit(void (*function)(void* object), void* object, void* program);
int __cxa_thread_atexit(void (*function)(void* object), void* object, void* program) {
  (void)program;
  struct cxx_destructor* entry = malloc(sizeof *entry);
  if (entry == NULL) return -1;
  *entry = (struct cxx_destructor){SELF(destructors), function, object};
  SELF(destructors) = entry;
  return 0;
}

void __stele_tls_end(void) {
  while (SELF(destructors) != NULL) {
    struct cxx_destructor* entry = SELF(destructors);
    SELF(destructors) = entry->next;
    entry->function(entry->object);
    free(entry);
  }
}
