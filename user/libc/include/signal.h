#ifndef _STELE_SIGNAL_H
#define _STELE_SIGNAL_H
#include_next <signal.h>

#define SA_RESTART 0x10
#define SA_NODEFER 0x20

__BEGIN_DECLS
int killpg(pid_t, int);
__END_DECLS
#endif
