/* Scheduling. Replaces newlib's header. The only policy is SCHED_OTHER, and the only priority is 0.
 * Nice values (setpriority) are independent of both. */
#ifndef _SCHED_H
#define _SCHED_H
#include <sys/cdefs.h>
#include <sys/sched.h>
#include <sys/types.h>
#include <time.h>

__BEGIN_DECLS
int sched_get_priority_max(int);
int sched_get_priority_min(int);
int sched_getparam(pid_t, struct sched_param*);
int sched_getscheduler(pid_t);
int sched_setparam(pid_t, const struct sched_param*);
int sched_setscheduler(pid_t, int, const struct sched_param*);
int sched_yield(void);
__END_DECLS
#endif
