#ifndef _STELE_UNISTD_H
#define _STELE_UNISTD_H
#include_next <unistd.h>

__BEGIN_DECLS
int getlogin_r(char*, size_t);
#if __BSD_VISIBLE || __GNU_VISIBLE
int getresuid(uid_t*, uid_t*, uid_t*);
int getresgid(gid_t*, gid_t*, gid_t*);
int setresuid(uid_t, uid_t, uid_t);
int setresgid(gid_t, gid_t, gid_t);
#endif
__END_DECLS
#endif
