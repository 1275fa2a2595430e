#ifndef _SYS_STATVFS_H
#define _SYS_STATVFS_H
#include <sys/cdefs.h>
#include <sys/types.h>

/* A device's space, in blocks of f_frsize bytes, and its numbers of files. */
struct statvfs {
  unsigned long f_bsize, f_frsize;
  fsblkcnt_t f_blocks, f_bfree, f_bavail;
  fsfilcnt_t f_files, f_ffree, f_favail;
  unsigned long f_fsid;
  unsigned long f_flag; /* ST_* */
  unsigned long f_namemax;
};

#define ST_RDONLY 1
#define ST_NOSUID 2

__BEGIN_DECLS
int statvfs(const char* __restrict, struct statvfs* __restrict);
int fstatvfs(int, struct statvfs*);
__END_DECLS
#endif
