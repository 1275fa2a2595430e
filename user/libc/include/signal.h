#ifndef _STELE_SIGNAL_H
#define _STELE_SIGNAL_H
#include_next <signal.h>
#endif
