#ifndef _STELE_SYS_WAIT_H
#define _STELE_SYS_WAIT_H
#include <signal.h>
#include <sys/cdefs.h>
#include_next <sys/wait.h>

#define WSTOPPED WUNTRACED
#define WEXITED 4
#define WCONTINUED 8
#define WNOWAIT 0x10

#define WCOREDUMP(status) 0
#define WIFCONTINUED(status) ((status) == 0xffff)
#define W_EXITCODE(code, signal) ((code) << 8 | (signal))
#define W_STOPCODE(signal) ((signal) << 8 | 0x7f)

typedef enum { P_ALL, P_PID, P_PGID } idtype_t;

struct rusage;
__BEGIN_DECLS
pid_t wait3(int*, int, struct rusage*);
pid_t wait4(pid_t, int*, int, struct rusage*);
int waitid(idtype_t, id_t, siginfo_t*, int);
__END_DECLS
#endif
