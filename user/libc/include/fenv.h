#ifndef _STELE_FENV_H
#define _STELE_FENV_H
#include_next <fenv.h>
#include <sys/cdefs.h>

#if __GNU_VISIBLE
__BEGIN_DECLS
int feenableexcept(int);
int fedisableexcept(int);
int fegetexcept(void);
__END_DECLS
#endif
#endif
