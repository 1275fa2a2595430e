/* The code before and after main, called by crt0.S on the program's first stack. */
#include "start.h"

#include <errno.h>
#include <reent.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "abi/start.h"
#include "streams.h"
#include "syscall.h"
#include "thread.h"

extern char** environ;
extern void __libc_init_array(void);
extern void __libc_fini_array(void);
extern void __call_exitprocs(int code, void* object);

/* The linker defines these bounds. Between them is one relocation for each function that has a
 * resolver (target_clones, ifunc). The resolvers run once, at the program's start. */
extern const Elf64_Rela __rela_iplt_start[], __rela_iplt_end[];

/* argv[0] and its last component, for messages. */
char* program_invocation_name = "?";
char* program_invocation_short_name = "?";

const unsigned long* __stele_auxv;
const Elf64_Phdr* __stele_headers;
size_t __stele_header_count;

static void read_auxv(const unsigned long* auxv) {
  __stele_auxv = auxv;
  for (; auxv[0] != ABI_AT_NULL; auxv += 2) {
    if (auxv[0] == ABI_AT_PHDR) __stele_headers = (const Elf64_Phdr*)auxv[1];
    if (auxv[0] == ABI_AT_PHNUM) __stele_header_count = auxv[1];
  }
  if (__stele_headers == NULL) __stele_header_count = 0;
}

static void choose_functions(void) {
  for (const Elf64_Rela* entry = __rela_iplt_start; entry != __rela_iplt_end; entry++)
    *(uintptr_t*)entry->r_offset = ((uintptr_t(*)(void))entry->r_addend)();
}

/* Called by crt0.S; never returns. The first thread's thread-local storage is in this stack frame,
 * so that a small program needs no additional page for this storage. */
_Noreturn void __stele_start(long* stack, int (*main)(int argc, char** argv, char** envp)) {
  int argc = (int)stack[0];
  char** argv = (char**)(stack + 1);
  environ = argv + argc + 1;
  char** end = environ;
  while (*end != NULL) end++;
  read_auxv((const unsigned long*)(end + 1));

  const struct tls_layout layout = __stele_tls_layout();
  char storage[layout.size];
  __stele_tls_start(&layout, storage);
  choose_functions();

  if (argc > 0) {
    char* slash = strrchr(argv[0], '/');
    program_invocation_name = argv[0];
    program_invocation_short_name = slash != NULL ? slash + 1 : argv[0];
  }
  atexit(__libc_fini_array);
  __libc_init_array();
  exit(main(argc, argv, environ));
}

void exit(int code) {
  /* Only one thread may end the process. Any other thread that calls exit waits for the lock until
   * _exit kills it. */
  __LOCK_INIT(static, exiting);
  SELF(cancel_mode) = CANCEL_DISABLED;
  __stele_lock(&exiting);
  __stele_tls_end();
  __call_exitprocs(code, NULL);
  close_streams();
  _exit(code);
}
