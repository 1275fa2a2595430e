#ifndef _STELE_NDBM_H
#define _STELE_NDBM_H
#include <sys/types.h>
/* newlib's header needs the types of <sys/types.h>. */
#include_next <ndbm.h>
#endif
