/* Thread-local storage.
 *
 * FS base is the thread pointer (System V ABI, AMD64 supplement; variant II of Drepper, "ELF
 * Handling For Thread-Local Storage"): the program's __thread variables lie below it, at offsets
 * that the linker has fixed, and a control block begins at it:
 *
 *   fs:0     the thread pointer itself, which code reads to have an address
 *   fs:0x28  the canary of -fstack-protector
 *
 * The kernel changes FS base with the task, and has to be told it (set_tls): the instruction for
 * it, wrfsbase, is off. All threads would share a canary, and a fork has it, as POSIX systems do.
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

struct control_block {
  struct control_block* self;
  uintptr_t unused[4];
  uintptr_t canary;
};
_Static_assert(offsetof(struct control_block, canary) == 0x28, "where gcc expects it");

/* newlib's state of a thread: errno, strtok's place and the like. */
static __thread struct _reent* reent;

struct _reent* __getreent(void) {
  return reent;
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
  layout.size = layout.offset + layout.alignment - 1 + sizeof(struct control_block);
  return layout;
}

void __stele_tls_start(const struct tls_layout* layout, void* memory) {
  struct control_block* block =
      (struct control_block*)align_up((uintptr_t)memory + layout->offset, layout->alignment);
  char* variables = (char*)block - layout->offset;
  memset(variables, 0, layout->offset + sizeof *block);
  memcpy(variables, layout->image, layout->image_size);
  block->self = block;
  const uintptr_t* random = (const uintptr_t*)getauxval(AT_RANDOM);
  /* A string that runs over ends before it: its lowest byte is zero. */
  if (random != NULL) block->canary = random[0] & ~(uintptr_t)0xff;
  syscall6(ABI_SYS_set_tls, (long)block, 0, 0, 0, 0, 0);
  reent = _GLOBAL_REENT;
}

/* Called by functions that were compiled with -fstack-protector. */
_Noreturn void __stack_chk_fail(void) {
  static const char message[] = "*** stack smashing detected ***: terminated\n";
  write(STDERR_FILENO, message, sizeof message - 1);
  abort();
}

/* Destructors of C++'s thread_local variables, the last one first. */
struct destructor {
  struct destructor* next;
  void (*function)(void* object);
  void* object;
};
static __thread struct destructor* destructors;

/* Called by the code of C++ programs when such a variable has been constructed; `program` names the
 * shared object, of which there is one. 0, or -1 without memory. */
int __cxa_thread_atexit(void (*function)(void* object), void* object, void* program);
int __cxa_thread_atexit(void (*function)(void* object), void* object, void* program) {
  (void)program;
  struct destructor* entry = malloc(sizeof *entry);
  if (entry == NULL) return -1;
  *entry = (struct destructor){destructors, function, object};
  destructors = entry;
  return 0;
}

void __stele_tls_end(void) {
  while (destructors != NULL) {
    struct destructor* entry = destructors;
    destructors = entry->next;
    entry->function(entry->object);
    free(entry);
  }
}
