#ifndef _STELE_FCNTL_H
#define _STELE_FCNTL_H
#include_next <fcntl.h>

#ifndef O_DSYNC
#define O_DSYNC O_SYNC
#define O_RSYNC O_SYNC
#endif

#define O_TTY_INIT 0 /* nothing to do: a new terminal already behaves as POSIX requires */

#define POSIX_FADV_NORMAL 0
#define POSIX_FADV_RANDOM 1
#define POSIX_FADV_SEQUENTIAL 2
#define POSIX_FADV_WILLNEED 3
#define POSIX_FADV_DONTNEED 4
#define POSIX_FADV_NOREUSE 5

__BEGIN_DECLS
int posix_fadvise(int, off_t, off_t, int);
int posix_fallocate(int, off_t, off_t);
__END_DECLS
#endif
