/* Data that a program's start provides to the rest of the library. Internal to user/libc. */
#pragma once

#include <elf.h>
#include <stddef.h>

/* The auxiliary vector: pairs of a type and a value, up to ABI_AT_NULL. */
extern const unsigned long* __stele_auxv;

/* The program headers of the running program; NULL and 0 if they are not in memory. */
extern const Elf64_Phdr* __stele_headers;
extern size_t __stele_header_count;

/* The layout of a thread's thread-local storage: the variables that the program's PT_TLS describes,
 * with the thread structure above them. */
struct tls_layout {
  const void* image; /* initial values of the variables */
  size_t image_size; /* bytes of `image`; the rest of the variables is zero */
  size_t offset;     /* bytes from the start of the variables to the thread pointer */
  size_t alignment;  /* alignment of the thread pointer */
  size_t size;       /* bytes to allocate for variables, padding and structure */
};
struct tls_layout __stele_tls_layout(void);
struct thread;
/* Makes the thread-local storage of a thread in `memory`, `layout->size` bytes. */
struct thread* __stele_tls_make(const struct tls_layout* layout, void* memory);
/* Makes the thread-local storage of the process's first thread, which is the caller. */
void __stele_tls_start(const struct tls_layout* layout, void* memory);
/* Runs the destructors of the calling thread's thread_local variables. */
void __stele_tls_end(void);

/* fork, without the handlers of pthread_atfork. */
int __stele_fork(void);
