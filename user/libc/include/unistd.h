#ifndef _STELE_UNISTD_H
#define _STELE_UNISTD_H
#include_next <unistd.h>

/* confstr's names: there is one programming environment, LP64. */
#define _CS_PATH 0
#define _CS_POSIX_V7_LP64_OFF64_CFLAGS 1
#define _CS_POSIX_V7_LP64_OFF64_LDFLAGS 2
#define _CS_POSIX_V7_LP64_OFF64_LIBS 3
#define _CS_POSIX_V7_WIDTH_RESTRICTED_ENVS 4
#define _CS_V7_ENV 5
#define _CS_LFS_CFLAGS 6
#define _CS_LFS_LDFLAGS 7
#define _CS_LFS_LIBS 8
#define _CS_LFS_LINTFLAGS 9

/* close() never leaves a descriptor open, so this flag of posix_close() changes nothing. */
#undef POSIX_CLOSE_RESTART
#define POSIX_CLOSE_RESTART 1

__BEGIN_DECLS
int posix_close(int, int);
int getlogin_r(char*, size_t);
pid_t getsid(pid_t);
#if __BSD_VISIBLE || __GNU_VISIBLE
int brk(void*);
int getresuid(uid_t*, uid_t*, uid_t*);
int getresgid(gid_t*, gid_t*, gid_t*);
int setresuid(uid_t, uid_t, uid_t);
int setresgid(gid_t, gid_t, gid_t);
#endif
__END_DECLS
#endif
