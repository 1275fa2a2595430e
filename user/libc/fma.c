/* fmal, fma and fmaf: x * y + z, rounded once. They replace newlib's fma and fmaf, which round the
 * product, too.
 *
 * The product and z are added as integers of 256 bits, of which the larger operand's first bit is
 * the last but one. An operand that is smaller by more than the width loses bits; one bit then says
 * that there were some (sticky), which is all that rounding asks. The sum is rounded to the digits
 * of the result's type, or to its smallest subnormal number. */
#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

typedef unsigned __int128 wide;

/* The number (high * 2^128 + low) * 2^exponent. */
struct number {
  wide high, low;
  int exponent;
  int negative;
};

/* A type of numbers: the bits of the mantissa, and the exponent of the smallest subnormal number.
 */
struct format {
  int digits, least;
};

enum { TOP = 254 }; /* the bit of the larger operand's first digit; the sum may carry into 255 */

static struct number number_of(wide value, int exponent, int negative) {
  struct number made = {.high = 0, .low = value, .exponent = exponent, .negative = negative};
  return made;
}

static int first_bit(const struct number* number) {
  const wide half = number->high ? number->high : number->low;
  const uint64_t word = (uint64_t)(half >> 64) ? (uint64_t)(half >> 64) : (uint64_t)half;
  return 63 - __builtin_clzll(word) + (half >> 64 ? 64 : 0) + (number->high ? 128 : 0);
}

static void shift_left(struct number* number, int bits) {
  if (bits >= 128) {
    number->high = number->low << (bits - 128);
    number->low = 0;
  } else if (bits > 0) {
    number->high = number->high << bits | number->low >> (128 - bits);
    number->low <<= bits;
  }
  number->exponent -= bits;
}

/* Bits that fall off set the lowest bit. */
static void shift_right(struct number* number, int bits) {
  int lost = 0;
  number->exponent += bits;
  if (bits >= 256) {
    lost = (number->high | number->low) != 0;
    number->high = number->low = 0;
  } else if (bits >= 128) {
    lost = number->low != 0 || (bits > 128 && number->high << (256 - bits) != 0);
    number->low = number->high >> (bits - 128);
    number->high = 0;
  } else if (bits > 0) {
    lost = number->low << (128 - bits) != 0;
    number->low = number->low >> bits | number->high << (128 - bits);
    number->high >>= bits;
  }
  number->low |= (wide)lost;
}

static int is_less(const struct number* a, const struct number* b) {
  return a->high != b->high ? a->high < b->high : a->low < b->low;
}

/* Adds two numbers that are not 0. The sum may be 0. */
static struct number sum_of(struct number a, struct number b) {
  if (a.exponent + first_bit(&a) < b.exponent + first_bit(&b)) {
    const struct number other = a;
    a = b;
    b = other;
  }
  shift_left(&a, TOP - first_bit(&a));
  if (b.exponent >= a.exponent) {
    shift_left(&b, b.exponent - a.exponent);
  } else {
    const int down = a.exponent - b.exponent, room = TOP - first_bit(&b);
    shift_left(&b, room);
    shift_right(&b, down + room);
  }
  if (a.negative == b.negative) {
    a.low += b.low;
    a.high += b.high + (a.low < b.low);
    return a;
  }
  if (is_less(&a, &b)) {
    const struct number other = a;
    a = b;
    b = other;
  }
  a.high -= b.high + (a.low < b.low);
  a.low -= b.low;
  return a;
}

/* Values of the rounding field in the x87 control word. */
enum { NEAREST = 0x000, DOWN = 0x400, UP = 0x800 };

static int rounding(void) {
  uint16_t control;
  __asm__ volatile("fnstcw %0" : "=m"(control));
  return control & 0xc00;
}

/* Says whether a number is rounded away from 0. `half`: the first bit that is cut off; `rest`:
 * whether any of the other ones is set. */
static int rounds_up(int negative, int odd, int half, int rest) {
  switch (rounding()) {
    case NEAREST:
      return half && (rest || odd);
    case DOWN:
      return negative && (half || rest);
    case UP:
      return !negative && (half || rest);
    default:
      return 0;
  }
}

static void raise_inexact(int is_tiny) {
  volatile long double one = 1, tiny = LDBL_MIN;
  one += tiny;
  if (is_tiny) tiny *= tiny;
}

/* Rounds a number that is not 0. The result is exact in the format, or too large for it. */
static long double rounded(struct number number, struct format format) {
  const int first = first_bit(&number);
  int cut = first + 1 - format.digits;
  const int is_tiny = number.exponent + cut < format.least;
  if (is_tiny) cut = format.least - number.exponent;
  if (cut > 0) {
    /* The two lowest bits become the half and the rest. */
    if (cut >= 2) {
      shift_right(&number, cut - 2);
    } else {
      shift_left(&number, 2 - cut);
    }
    const int half = (int)(number.low >> 1 & 1), rest = (int)(number.low & 1);
    number.low >>= 2;
    number.exponent += 2;
    if (half || rest) raise_inexact(is_tiny);
    number.low += (wide)rounds_up(number.negative, (int)(number.low & 1), half, rest);
  } else {
    shift_left(&number, -cut);
  }
  /* At most 2^64 now, and exact in a long double. */
  long double result =
      (long double)(uint64_t)(number.low >> 32) * 0x1p32L + (long double)(uint32_t)number.low;
  return scalbnl(number.negative ? -result : result, number.exponent);
}

static struct number parts_of(long double x) {
  int exponent;
  const long double fraction = frexpl(fabsl(x), &exponent);
  return number_of((uint64_t)(fraction * 0x1p64L), exponent - 64, signbit(x) != 0);
}

static long double fused(long double x, long double y, long double z, struct format format) {
  if (!isfinite(x) || !isfinite(y) || x == 0 || y == 0) return x * y + z;
  if (!isfinite(z)) return z + z;
  const struct number a = parts_of(x), b = parts_of(y);
  const struct number product =
      number_of(a.low * b.low, a.exponent + b.exponent, a.negative != b.negative);
  if (z == 0) return rounded(product, format);
  const struct number sum = sum_of(product, parts_of(z));
  if ((sum.high | sum.low) == 0) return rounding() == DOWN ? -0.0L : 0.0L;
  return rounded(sum, format);
}

long double fmal(long double x, long double y, long double z) {
  const struct format format = {.digits = LDBL_MANT_DIG, .least = LDBL_MIN_EXP - LDBL_MANT_DIG};
  return fused(x, y, z, format);
}
double fma(double x, double y, double z) {
  const struct format format = {.digits = DBL_MANT_DIG, .least = DBL_MIN_EXP - DBL_MANT_DIG};
  return (double)fused(x, y, z, format);
}
float fmaf(float x, float y, float z) {
  const struct format format = {.digits = FLT_MANT_DIG, .least = FLT_MIN_EXP - FLT_MANT_DIG};
  return (float)fused(x, y, z, format);
}
