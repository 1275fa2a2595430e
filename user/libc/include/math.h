#ifndef _STELE_MATH_H
#define _STELE_MATH_H
#include_next <math.h>

/* newlib's macros divide the natural logarithm by that of 2: rounding makes log2(8) differ from 3.
 * The functions (user/libc/musl) are exact for powers of 2. */
#undef log2
#undef log2f

/* Functions that newlib has but does not declare, and long double constants and functions that
 * newlib lacks. */
#if __MISC_VISIBLE
#define M_El 2.718281828459045235360287471352662498L
#define M_LOG2El 1.442695040888963407359924681001892137L
#define M_LOG10El 0.434294481903251827651128918916605082L
#define M_LN2l 0.693147180559945309417232121458176568L
#define M_LN10l 2.302585092994045684017991454684364208L
#define M_PIl 3.141592653589793238462643383279502884L
#define M_PI_2l 1.570796326794896619231321691639751442L
#define M_PI_4l 0.785398163397448309615660845819875721L
#define M_1_PIl 0.318309886183790671537767526745028724L
#define M_2_PIl 0.636619772367581343075535053490057448L
#define M_2_SQRTPIl 1.128379167095512573896158903121545172L
#define M_SQRT2l 1.414213562373095048801688724209698079L
#define M_SQRT1_2l 0.707106781186547524400844362104849039L

__BEGIN_DECLS
double scalb(double, double);
float scalbf(float, float);
double significand(double);
float significandf(float);
long double exp10l(long double);
long double lgammal_r(long double, int*);
long double pow10l(long double);
void sincosl(long double, long double*, long double*);
__END_DECLS
#endif
#endif
