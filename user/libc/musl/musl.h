/* Each file of musl includes this header first. It has what newlib's headers lack. */
#include <math.h>

#define hidden __attribute__((__visibility__("hidden")))
#define weak_alias(old, new) extern __typeof(old) new __attribute__((__weak__, __alias__(#old)))

/* musl declares and uses a variable of this name. In newlib it is a function, which returns the
 * address of the thread's signgam. This macro turns musl's declaration into one of this function.
 */
#define __signgam (*__signgam())

/* For err. */
#define __progname program_invocation_short_name

/* For glob. */
#define __strchrnul strchrnul

/* For mkstemp and its relatives. */
char* __randname(char*); /* user/libc/mktemp.c */
int __mkostemps(char*, int, int);

/* For timegm. */
#define __tm_gmtoff tm_gmtoff
#define __tm_zone tm_zone

/* For posix_spawn's file actions. */
#define __libc_malloc malloc
#define __libc_free free
