/* What runs before main: called by crt0.S, on the program's first stack. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "syscall.h"

extern char** environ;
extern void __libc_init_array(void);
extern void __libc_fini_array(void);

/* argv[0] and its last component, for messages. */
char* program_invocation_name = "?";
char* program_invocation_short_name = "?";

/* From crt0.S. */
_Noreturn void __stele_start(long* stack, int (*main)(int argc, char** argv, char** envp)) {
  int argc = (int)stack[0];
  char** argv = (char**)(stack + 1);
  environ = argv + argc + 1;
  if (argc > 0) {
    char* slash = strrchr(argv[0], '/');
    program_invocation_name = argv[0];
    program_invocation_short_name = slash != NULL ? slash + 1 : argv[0];
  }
  atexit(__libc_fini_array);
  __libc_init_array();
  exit(main(argc, argv, environ));
}
