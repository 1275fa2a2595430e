/* What a program's start finds out for the rest of the library. Internal to user/libc. */
#pragma once

#include <elf.h>
#include <stddef.h>

/* The auxiliary vector: pairs of a type and a value, up to ABI_AT_NULL. */
extern const unsigned long* __stele_auxv;

/* The program's own headers; 0 if they are not in memory. */
extern const Elf64_Phdr* __stele_headers;
extern size_t __stele_header_count;

/* The thread-local storage that each thread has, as the program's PT_TLS describes it, and what the
 * compiler and the ABI put above it. */
struct tls_layout {
  const void* image; /* the initial values */
  size_t image_size; /* what follows up to `offset` is zero */
  size_t offset;     /* bytes from the block's start up to the thread pointer */
  size_t alignment;  /* of the thread pointer */
  size_t size;       /* of it all, aligned or not */
};
struct tls_layout __stele_tls_layout(void);
struct thread;
/* Thread-local storage of a thread in `memory`, `layout->size` bytes. */
struct thread* __stele_tls_make(const struct tls_layout* layout, void* memory);
/* Makes it that of the process's first thread, which calls. */
void __stele_tls_start(const struct tls_layout* layout, void* memory);
/* Runs the destructors of the calling thread's thread_local variables. */
void __stele_tls_end(void);

/* fork without the handlers of pthread_atfork. */
int __stele_fork(void);
