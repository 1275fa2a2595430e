/* Macros for options of POSIX that this system has and newlib's header does not announce. */
#ifndef _STELE_SYS_FEATURES_H
#define _STELE_SYS_FEATURES_H
#include_next <sys/features.h>

#define _POSIX_REALTIME_SIGNALS 200809L
#define _POSIX_CLOCK_SELECTION 200809L
#endif
