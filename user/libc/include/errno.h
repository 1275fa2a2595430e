#ifndef _STELE_ERRNO_H
#define _STELE_ERRNO_H
#include_next <errno.h>
#include <sys/cdefs.h>

#if __GNU_VISIBLE
__BEGIN_DECLS
extern char* program_invocation_name;       /* argv[0] */
extern char* program_invocation_short_name; /* last component of argv[0] */
__END_DECLS
#endif
#endif
