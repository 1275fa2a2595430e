#ifndef _STELE_FCNTL_H
#define _STELE_FCNTL_H
#include_next <fcntl.h>

#ifndef O_DSYNC
#define O_DSYNC O_SYNC
#define O_RSYNC O_SYNC
#endif

__BEGIN_DECLS
int posix_fallocate(int, off_t, off_t);
__END_DECLS
#endif
