/* For the headers of musl, which define __NEED_… for the types that they need. */
#include <stdarg.h>
#include <stddef.h>
#include <sys/types.h>
#ifdef __NEED_sigset_t
#include <signal.h>
#endif
