/* Replacements for newlib's log2 and gamma, and the long double functions of <math.h>. newlib lacks
 * most long double functions on machines where long double is wider than double.
 *
 * Functions with exact results (rounding, scaling, remainders, neighbours) and fdiml have the full
 * precision and range of the x87 unit, as has fmal (fma.c). All other long double functions of this
 * file have only double's precision and range. */
#include <float.h>
#include <limits.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

/* Adds the exponent and the logarithm of the mantissa. The mantissa is brought into the range from
 * 1/sqrt(2) to sqrt(2). The mantissa of a power of 2 is 1, so the result for a power of 2 is
 * exact. */
double log2(double x) {
  int exponent;
  double fraction = frexp(x, &exponent);
  if (!(fraction > 0) || isinf(fraction)) return log(x);
  if (fraction < M_SQRT1_2) {
    fraction *= 2;
    exponent--;
  }
  return exponent + log(fraction) * M_LOG2E;
}
float log2f(float x) {
  return (float)log2(x);
}

#define BY_DOUBLE(function)                  \
  long double function##l(long double x) {   \
    return (long double)function((double)x); \
  }
BY_DOUBLE(acos)
BY_DOUBLE(acosh)
BY_DOUBLE(asin)
BY_DOUBLE(asinh)
BY_DOUBLE(atan)
BY_DOUBLE(atanh)
BY_DOUBLE(cbrt)
BY_DOUBLE(cos)
BY_DOUBLE(cosh)
BY_DOUBLE(erf)
BY_DOUBLE(erfc)
BY_DOUBLE(exp)
BY_DOUBLE(exp2)
BY_DOUBLE(expm1)
BY_DOUBLE(lgamma)
BY_DOUBLE(log)
BY_DOUBLE(log10)
BY_DOUBLE(log1p)
BY_DOUBLE(log2)
BY_DOUBLE(sin)
BY_DOUBLE(sinh)
BY_DOUBLE(tan)
BY_DOUBLE(tanh)
BY_DOUBLE(tgamma)

long double atan2l(long double y, long double x) {
  return atan2((double)y, (double)x);
}
long double powl(long double x, long double y) {
  return pow((double)x, (double)y);
}
long double exp10l(long double x) {
  return exp10((double)x);
}
long double pow10l(long double x) {
  return exp10((double)x);
}
long double lgammal_r(long double x, int* sign) {
  return lgamma_r((double)x, sign);
}
void sincosl(long double x, long double* sine, long double* cosine) {
  *sine = sinl(x);
  *cosine = cosl(x);
}

/* Old names of lgamma. newlib's functions of these names compute the gamma function itself. */
double gamma(double x) {
  return lgamma(x);
}
float gammaf(float x) {
  return lgammaf(x);
}
double gamma_r(double x, int* sign) {
  return lgamma_r(x, sign);
}
float gammaf_r(float x, int* sign) {
  return lgammaf_r(x, sign);
}

/* The layout of an 80-bit number in memory. */
struct extended {
  uint64_t mantissa;
  uint16_t exponent; /* bit 15 is the sign */
};

static struct extended to_bits(long double x) {
  struct extended bits = {0};
  memcpy(&bits, &x, 10);
  return bits;
}

static long double from_bits(struct extended bits) {
  long double x = 0;
  memcpy(&x, &bits, 10);
  return x;
}

long double fabsl(long double x) {
  return __builtin_fabsl(x);
}
long double copysignl(long double x, long double y) {
  return __builtin_copysignl(x, y);
}
long double fdiml(long double x, long double y) {
  return isnan(x) || isnan(y) ? x + y : x > y ? x - y : 0;
}
long double fmaxl(long double x, long double y) {
  return isnan(x) || x < y ? y : x;
}
long double fminl(long double x, long double y) {
  return isnan(x) || x > y ? y : x;
}

/* Values of the rounding field in the x87 control word. */
enum { NEAREST = 0x000, DOWN = 0x400, UP = 0x800, TOWARD_ZERO = 0xc00 };

static long double round_by(long double x, uint16_t mode) {
  uint16_t control, changed;
  __asm__ volatile("fnstcw %0" : "=m"(control));
  changed = (uint16_t)((control & ~0xc00) | mode);
  __asm__ volatile("fldcw %2; frndint; fldcw %1" : "+t"(x) : "m"(control), "m"(changed));
  return x;
}

long double rintl(long double x) {
  __asm__("frndint" : "+t"(x));
  return x;
}
long double nearbyintl(long double x) {
  return rintl(x);
}
long double ceill(long double x) {
  return round_by(x, UP);
}
long double floorl(long double x) {
  return round_by(x, DOWN);
}
long double truncl(long double x) {
  return round_by(x, TOWARD_ZERO);
}
/* Rounds halves away from zero. */
long double roundl(long double x) {
  long double whole = truncl(fabsl(x));
  if (fabsl(x) - whole >= 0.5L) whole += 1;
  return copysignl(whole, x);
}
long lrintl(long double x) {
  return (long)rintl(x);
}
long long llrintl(long double x) {
  return (long long)rintl(x);
}
long lroundl(long double x) {
  return (long)roundl(x);
}
long long llroundl(long double x) {
  return (long long)roundl(x);
}

long double modfl(long double x, long double* whole) {
  *whole = truncl(x);
  return copysignl(isinf(x) ? 0 : x - *whole, x);
}

long double scalblnl(long double x, long power) {
  long double scale = power;
  __asm__("fscale" : "+t"(x) : "u"(scale));
  return x;
}
long double scalbnl(long double x, int power) {
  return scalblnl(x, power);
}
long double ldexpl(long double x, int power) {
  return scalblnl(x, power);
}

/* Returns the exponent of x = mantissa * 2^exponent, where 1 <= |mantissa| < 2. */
long double logbl(long double x) {
  long double mantissa, exponent;
  __asm__("fxtract" : "=t"(mantissa), "=u"(exponent) : "0"(x));
  return exponent;
}
int ilogbl(long double x) {
  if (isnan(x)) return FP_ILOGBNAN;
  if (isinf(x)) return INT_MAX;
  return x == 0 ? FP_ILOGB0 : (int)logbl(x);
}
long double frexpl(long double x, int* exponent) {
  *exponent = 0;
  if (x == 0 || isnan(x) || isinf(x)) return x;
  *exponent = (int)logbl(x) + 1;
  return scalblnl(x, -(long)*exponent);
}

/* fprem reduces x in steps, and sets flag C2 (bit 2 of ah) until the reduction is complete. */
long double fmodl(long double x, long double y) {
  __asm__("1: fprem; fnstsw %%ax; testb $4, %%ah; jnz 1b" : "+t"(x) : "u"(y) : "ax", "cc");
  return x;
}
long double remainderl(long double x, long double y) {
  __asm__("1: fprem1; fnstsw %%ax; testb $4, %%ah; jnz 1b" : "+t"(x) : "u"(y) : "ax", "cc");
  return x;
}
/* Computes the three lowest bits of the quotient in C: fprem1 returns them in flags, but some
 * emulators do not set these flags. */
long double remquol(long double x, long double y, int* quotient) {
  int low = 0, negative = signbit(x) != signbit(y);
  long double rest = fabsl(x), unit = fabsl(y);
  if (unit <= LDBL_MAX / 8) rest = fmodl(rest, 8 * unit);
  for (int part = 4; part > 1; part /= 2) {
    if (unit > LDBL_MAX / part || rest < part * unit) continue;
    rest -= part * unit;
    low += part;
  }
  if (rest > unit / 2) {
    rest -= unit;
    low++;
    if (rest >= unit / 2) low++;
  }
  *quotient = negative ? -(low & 7) : low & 7;
  return remainderl(x, y);
}

long double nextafterl(long double x, long double y) {
  if (isnan(x) || isnan(y)) return x + y;
  if (x == y) return y;
  struct extended bits = to_bits(x);
  if (x == 0) {
    bits = (struct extended){.mantissa = 1, .exponent = y < 0 ? 0x8000 : 0};
  } else if ((x < y) == (x > 0)) {
    /* The next number away from zero. The mantissa's top bit is explicit, so an increment of the
     * largest mantissa overflows; the next number is a power of two. */
    if (++bits.mantissa == 0) bits = (struct extended){1ull << 63, (uint16_t)(bits.exponent + 1)};
    if (bits.mantissa == 1ull << 63 && (bits.exponent & 0x7fff) == 0) bits.exponent++;
  } else {
    if (bits.mantissa-- == 1ull << 63 && (bits.exponent & 0x7fff) != 0) {
      bits.exponent--;
      if ((bits.exponent & 0x7fff) != 0) bits.mantissa = UINT64_MAX;
    }
  }
  return from_bits(bits);
}
long double nexttowardl(long double x, long double y) {
  return nextafterl(x, y);
}
double nexttoward(double x, long double y) {
  if (isnan(y)) return (double)y;
  return x == y ? (double)y : nextafter(x, y > x ? INFINITY : -INFINITY);
}
float nexttowardf(float x, long double y) {
  if (isnan(y)) return (float)y;
  return x == y ? (float)y : nextafterf(x, y > x ? INFINITY : -INFINITY);
}
