#ifndef _STELE_SYS_WAIT_H
#define _STELE_SYS_WAIT_H
#include <sys/cdefs.h>
#include_next <sys/wait.h>

#define WCOREDUMP(status) 0
#define WIFCONTINUED(status) 0
#define W_EXITCODE(code, signal) ((code) << 8 | (signal))
#define W_STOPCODE(signal) ((signal) << 8 | 0x7f)

struct rusage;
__BEGIN_DECLS
pid_t wait3(int*, int, struct rusage*);
pid_t wait4(pid_t, int*, int, struct rusage*);
__END_DECLS
#endif
