#ifndef _SYS_UTIME_H
#define _SYS_UTIME_H
#include <sys/cdefs.h>
#include <sys/types.h>

struct utimbuf {
  time_t actime, modtime;
};

__BEGIN_DECLS
int utime(const char*, const struct utimbuf*);
__END_DECLS
#endif
