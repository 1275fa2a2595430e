#ifndef _STELE_COMPLEX_H
#define _STELE_COMPLEX_H
#include_next <complex.h>

#ifndef __cplusplus
#include <sys/cdefs.h>

__BEGIN_DECLS
long double complex cacosl(long double complex);
long double complex cacoshl(long double complex);
long double complex casinhl(long double complex);
long double complex catanhl(long double complex);
long double complex ccosl(long double complex);
long double complex ccoshl(long double complex);
long double complex cexpl(long double complex);
long double complex conjl(long double complex);
long double complex cpowl(long double complex, long double complex);
long double complex cprojl(long double complex);
long double complex csinl(long double complex);
long double complex csinhl(long double complex);
long double complex ctanl(long double complex);
long double complex ctanhl(long double complex);
__END_DECLS
#endif
#endif
