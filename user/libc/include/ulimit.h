#ifndef _ULIMIT_H
#define _ULIMIT_H
#include <sys/cdefs.h>

#define UL_GETFSIZE 1
#define UL_SETFSIZE 2

__BEGIN_DECLS
long ulimit(int, ...); /* counts blocks of 512 bytes */
__END_DECLS
#endif
