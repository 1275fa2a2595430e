#ifndef _STELE_SYS_PARAM_H
#define _STELE_SYS_PARAM_H
#include <limits.h>

#include_next <sys/param.h>
#include <sys/types.h>

#undef HZ
#define HZ 250 /* ticks a second of times(), as sysconf(_SC_CLK_TCK) says */
#undef NOFILE
#define NOFILE OPEN_MAX
#define NGROUPS NGROUPS_MAX
#define MAXHOSTNAMELEN HOST_NAME_MAX
#define MAXSYMLINKS SYMLOOP_MAX
#define DEV_BSIZE 512
#define roundup(x, y) ((((x) + ((y)-1)) / (y)) * (y))
#define rounddown(x, y) (((x) / (y)) * (y))
#define powerof2(x) ((((x)-1) & (x)) == 0)
#define setbit(bits, i) ((bits)[(i) / NBBY] |= 1 << ((i) % NBBY))
#define clrbit(bits, i) ((bits)[(i) / NBBY] &= ~(1 << ((i) % NBBY)))
#define isset(bits, i) ((bits)[(i) / NBBY] & (1 << ((i) % NBBY)))
#define isclr(bits, i) (!isset(bits, i))
#endif
