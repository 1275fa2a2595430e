#ifndef _STELE_TIME_H
#define _STELE_TIME_H
#include <sys/cdefs.h>
#include_next <time.h>

#define TIME_UTC 1

__BEGIN_DECLS
#if __SVID_VISIBLE || __XSI_VISIBLE
extern long timezone __asm__("_timezone"); /* seconds west of Greenwich; newlib's names */
extern int daylight __asm__("_daylight");
#endif
#if __POSIX_VISIBLE >= 199309
/* Processor time of the calling process, and of the calling thread. No timers count it but
 * setitimer's. */
#define CLOCK_PROCESS_CPUTIME_ID ((clockid_t)2)
#define CLOCK_THREAD_CPUTIME_ID ((clockid_t)3)
int clock_getcpuclockid(pid_t, clockid_t*); /* of the caller only */
#endif
time_t timegm(struct tm*);
time_t timelocal(struct tm*);
int timespec_get(struct timespec*, int);
__END_DECLS
#endif
