#include "trace/record/sampler.h"

#include <algorithm>
#include <array>
#include <bit>

namespace {

using Wide = unsigned __int128;

constexpr uint64_t kOne = uint64_t{1} << kMeanShift;
constexpr uint64_t kLn2 = 0xb17217f7d1cf79ab;  // ln 2 · 2^64
constexpr uint64_t kLn2Mean = kLn2 >> (64 - kMeanShift);

// a · b / 2^64
constexpr uint64_t multiply_high(uint64_t a, uint64_t b) {
  return static_cast<uint64_t>(Wide{a} * b >> 64);
}

// Q[k] = ln 2 / 1! + (ln 2)^2 / 2! + … + (ln 2)^k / k!, times 2^64. Q[16] is 2^64 except for
// rounding errors.
constexpr unsigned kMinima = 16;
constexpr std::array<uint64_t, kMinima + 1> make_q() {
  std::array<uint64_t, kMinima + 1> q{};
  uint64_t term = kLn2;
  for (unsigned k = 1; k <= kMinima; k++) {
    q[k] = q[k - 1] + term;
    term = multiply_high(term, kLn2) / (k + 1);
  }
  return q;
}
constexpr std::array<uint64_t, kMinima + 1> kQ = make_q();
static_assert(kQ[kMinima] > UINT64_MAX - 1000 && kQ[kMinima] > kQ[kMinima - 1]);

// Returns e^-x · 2^63; x is in units of 2^-58. Computed as 2^-n · e^-t, with t below ln 2 and e^-t
// by Taylor's series. The error is below 2^-55.
uint64_t exp_minus(uint64_t x) {
  const uint64_t halvings = x / kLn2Mean;
  if (halvings >= 63) return 0;
  const uint64_t t = (x % kLn2Mean) << (64 - kMeanShift);
  constexpr uint64_t kWhole = uint64_t{1} << 63;
  constexpr unsigned kTerms = 17;  // (ln 2)^17 / 17! = 2^-57
  uint64_t sum = kWhole;
  for (unsigned k = kTerms; k >= 1; k--) sum = kWhole - multiply_high(sum, t) / k;
  return sum >> halvings;
}

// Returns x / (1 − e^-x) · 2^60, for x up to 1; x is in units of 2^-58. Computed as 1 + x/2 + x²/12
// − x⁴/720 + x⁶/30240 − x⁸/1209600, from the Bernoulli numbers. The next term is below 2^-25.
uint64_t series(uint64_t x) {
  const auto scale = [](uint64_t a, uint64_t b) {
    return static_cast<uint64_t>(Wide{a} * b >> kMeanShift);
  };
  const uint64_t square = scale(x, x);
  uint64_t sum = kOne / 30240 - square / 1209600;
  sum = kOne / 720 - scale(sum, square);
  sum = kOne / 12 - scale(sum, square);
  return (kOne + x / 2 + scale(sum, square)) << 2;
}

}  // namespace

// SplitMix64 (Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014).
uint64_t Sampler::random() {
  uint64_t z = state_ += 0x9e3779b97f4a7c15;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
  z = (z ^ z >> 27) * 0x94d049bb133111eb;
  return z ^ z >> 31;
}

// Knuth, The Art of Computer Programming, volume 2, 3.4.1, algorithm S, which needs no logarithm.
uint64_t Sampler::uncut_deviate() {
  const uint64_t bits = random();
  const auto ones = static_cast<unsigned>(std::countl_one(bits));
  const uint64_t u = ones >= 63 ? 0 : bits << (ones + 1);
  if (u < kLn2) return ones * kLn2Mean + (u >> (64 - kMeanShift));
  unsigned k = 2;
  while (k < kMinima && u >= kQ[k]) k++;
  uint64_t least = random();
  for (unsigned i = 1; i < k; i++) least = std::min(least, random());
  return ones * kLn2Mean + (multiply_high(least, kLn2) >> (64 - kMeanShift));
}

uint64_t Sampler::deviate() {
  return std::min(uncut_deviate(), uint64_t{kAlways} - 1);
}

SampleWeight sample_weight(uint64_t size, uint64_t rate) {
  constexpr uint64_t kObject = uint64_t{1} << SampleWeight::kShift;
  const uint64_t itself = size << SampleWeight::kShift;
  if (rate == 0 || size == 0) return {itself, kObject};
  const uint64_t x = sample_distance(size, sample_step(rate));
  if (x > kOne) {
    const uint64_t p = (uint64_t{1} << 31) - (exp_minus(x) >> 32);
    const uint64_t weight = (uint64_t{1} << 63) / p;  // 1/p · 2^32
    return {static_cast<uint64_t>(Wide{size} * weight >> (32 - SampleWeight::kShift)),
            weight >> (32 - SampleWeight::kShift)};
  }
  // size/p = rate · x/p
  const auto bytes = static_cast<uint64_t>(Wide{rate} * series(x) >> (60 - 29));  // below 2^62
  return {bytes >> (29 - SampleWeight::kShift), bytes / size >> (29 - SampleWeight::kShift)};
}
