#ifndef _STELE_SCHED_H
#define _STELE_SCHED_H
#include_next <sched.h>
#include <sys/cdefs.h>

__BEGIN_DECLS
int sched_yield(void);
__END_DECLS
#endif
