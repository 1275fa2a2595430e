#ifndef _STELE_GRP_H
#define _STELE_GRP_H
#include_next <grp.h>

__BEGIN_DECLS
int getgrouplist(const char*, gid_t, gid_t*, int*);
#if __BSD_VISIBLE
int setgroups(int, const gid_t*);
#endif
__END_DECLS
#endif
