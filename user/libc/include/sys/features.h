/* What of POSIX there is besides that which newlib's header says (user/libc/newlib). */
#ifndef _STELE_SYS_FEATURES_H
#define _STELE_SYS_FEATURES_H
#include_next <sys/features.h>

#define _POSIX_REALTIME_SIGNALS 200809L
#define _POSIX_CLOCK_SELECTION 200809L
#endif
