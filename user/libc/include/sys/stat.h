#ifndef _STELE_SYS_STAT_H
#define _STELE_SYS_STAT_H
#include_next <sys/stat.h>

#ifndef UTIME_NOW
#define UTIME_NOW (-2L)
#define UTIME_OMIT (-1L)
#endif

__BEGIN_DECLS
int lstat(const char* __restrict, struct stat* __restrict);
int mknod(const char*, mode_t, dev_t);
__END_DECLS
#endif
