#ifndef _STELE_TIME_H
#define _STELE_TIME_H
#include_next <time.h>

#define TIME_UTC 1

__BEGIN_DECLS
#if __SVID_VISIBLE || __XSI_VISIBLE
extern long timezone __asm__("_timezone"); /* seconds west of Greenwich; newlib's names */
extern int daylight __asm__("_daylight");
#endif
time_t timegm(struct tm*);
time_t timelocal(struct tm*);
int timespec_get(struct timespec*, int);
__END_DECLS
#endif
