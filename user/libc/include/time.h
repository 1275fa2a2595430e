#ifndef _STELE_TIME_H
#define _STELE_TIME_H
#include <sys/cdefs.h>
#include_next <time.h>

#if __POSIX_VISIBLE >= 199309
/* Processor time of the calling process; it has one thread. No timers count it but setitimer's. */
#define CLOCK_PROCESS_CPUTIME_ID ((clockid_t)2)
#define CLOCK_THREAD_CPUTIME_ID ((clockid_t)3)

__BEGIN_DECLS
int clock_getcpuclockid(pid_t, clockid_t*); /* of the caller only */
__END_DECLS
#endif
#endif
