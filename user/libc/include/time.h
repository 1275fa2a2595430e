#ifndef _STELE_TIME_H
#define _STELE_TIME_H
#include <sys/cdefs.h>
#include_next <time.h>

#define TIME_UTC 1

__BEGIN_DECLS
#if __SVID_VISIBLE || __XSI_VISIBLE
/* newlib's names begin with an underscore. */
extern long timezone __asm__("_timezone"); /* seconds west of Greenwich */
extern int daylight __asm__("_daylight");
#endif
#if __POSIX_VISIBLE >= 199309
/* Processor time of the calling process, and of the calling thread. timer_create fails with these
 * clocks (ENOTSUP); only setitimer has timers of processor time. */
#define CLOCK_PROCESS_CPUTIME_ID ((clockid_t)2)
#define CLOCK_THREAD_CPUTIME_ID ((clockid_t)3)
int clock_getcpuclockid(pid_t, clockid_t*); /* gives the clock of the caller only */
#endif
time_t timegm(struct tm*);
time_t timelocal(struct tm*);
int timespec_get(struct timespec*, int);
__END_DECLS
#endif
