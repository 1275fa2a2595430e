#ifndef _STELE_UTMP_H
#define _STELE_UTMP_H
#include_next <utmp.h>

__BEGIN_DECLS
int login_tty(int);
__END_DECLS
#endif
