#ifndef _FTW_H
#define _FTW_H
#include <sys/cdefs.h>
#include <sys/stat.h>

enum { FTW_F, FTW_D, FTW_DNR, FTW_NS, FTW_SL, FTW_DP, FTW_SLN };
#define FTW_F FTW_F
#define FTW_D FTW_D
#define FTW_DNR FTW_DNR
#define FTW_NS FTW_NS
#define FTW_SL FTW_SL
#define FTW_DP FTW_DP
#define FTW_SLN FTW_SLN

#define FTW_PHYS 1
#define FTW_MOUNT 2
#define FTW_CHDIR 4
#define FTW_DEPTH 8

struct FTW {
  int base;  /* offset of the path's last component */
  int level; /* depth below the first path, which has 0 */
};

__BEGIN_DECLS
int ftw(const char*, int (*)(const char*, const struct stat*, int), int);
int nftw(const char*, int (*)(const char*, const struct stat*, int, struct FTW*), int, int);
__END_DECLS
#endif
