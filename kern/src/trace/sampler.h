// Which allocations a sampled trace records, and how many a recorded one stands for.
//
// Poisson sampling by bytes: every byte that is allocated is a sampling point with probability
// 1/rate, whatever lies around it, and an allocation is recorded when there is a point in it. So
// one of `size` bytes is recorded with
//   p = 1 − e^(−size/rate)
// and stands for 1/p objects and size/p bytes: large objects are all seen, small ones seldom, and
// sums over what is recorded estimate the sums over all without bias (Horvitz and Thompson, "A
// Generalization of Sampling Without Replacement From a Finite Universe", JASA 1952). The standard
// error of an estimate is the root of the sum over the recorded of (1 − p) (size/p)².
//
// The distance to the next point is an exponential deviate. It is kept in units of the mean: an
// allocation takes size/rate from it and is recorded when that is more than what is left; then
// another is drawn. What has not happened yet has no memory of how long it has been waited for, so
// a countdown goes on where it was when a trace begins anew, with another rate too.
//
// All arithmetic is fixed point. Fractions of the mean have 58 bits behind the point and five
// before: a deviate of more than 32 means, which one draw in 10^14 would be, is cut to that, and a
// larger allocation is always recorded.
#pragma once

#include <cstdint>

// Bytes between two sampling points, on the average.
inline constexpr uint64_t kMinSampleRate = 1;
inline constexpr uint64_t kMaxSampleRate = uint64_t{1} << 32;

inline constexpr unsigned kMeanShift = 58;

// What one byte takes from a countdown, rounded down (2^-26 of it at worst).
constexpr uint64_t sample_step(uint64_t rate) {
  return (uint64_t{1} << kMeanShift) / rate;
}
// What an allocation takes; more than any deviate when it would not fit.
constexpr uint64_t sample_distance(uint64_t size, uint64_t step) {
  uint64_t distance = 0;
  return __builtin_mul_overflow(size, step, &distance) ? UINT64_MAX : distance;
}

// A countdown. Of one CPU: used with interrupts off.
class Sampler {
 public:
  bool seeded() const { return seeded_; }
  void seed(uint64_t seed) {
    state_ = seed;
    seeded_ = true;
    left_ = deviate();
  }
  // Whether an allocation of `size` bytes is recorded. `step` is sample_step() of the trace's rate.
  // Bound: kMinima + 1 random numbers, two on the average, and only if it is.
  bool take(uint64_t size, uint64_t step) {
    const uint64_t distance = sample_distance(size, step);
    if (distance <= left_) {
      left_ -= distance;
      return false;
    }
    left_ = deviate();
    return true;
  }
  // The same for the distance that an allocation takes, as far as it says no: true. False if the
  // allocation is recorded: then undo_pass() before take(). One of kAlways is.
  static constexpr int64_t kAlways = INT64_MAX;
  [[gnu::always_inline]] bool pass(int64_t distance) {
    bool has_point;  // two instructions, for the hooks
    asm("subq %2, %0" : "+m"(left_), "=@ccb"(has_point) : "r"(distance));
    return !has_point;
  }
  [[gnu::always_inline]] void undo_pass(int64_t distance) {
    left_ += static_cast<uint64_t>(distance);
  }
  // An exponential deviate of mean 1 (2^58), less than kAlways. Exact but for what lies behind the
  // last bit, and cut at 32 means.
  uint64_t deviate();

 private:
  uint64_t random();
  uint64_t uncut_deviate();

  uint64_t state_ = 0;
  uint64_t left_ = 0;
  bool seeded_ = false;
};

// How much a recorded allocation stands for, in units of 2^-16: 1/p objects, size/p bytes; relative
// error below 2^-16 and 2^-24. A sum of them fits in 64 bits up to 2^48 bytes. Size 0, which is
// never sampled, stands for itself.
struct SampleWeight {
  static constexpr unsigned kShift = 16;

  uint64_t bytes, objects;

  SampleWeight& operator+=(const SampleWeight& other) {
    bytes += other.bytes;
    objects += other.objects;
    return *this;
  }
  uint64_t whole_bytes() const { return rounded(bytes); }
  uint64_t whole_objects() const { return rounded(objects); }

 private:
  static uint64_t rounded(uint64_t value) {
    return (value + (uint64_t{1} << (kShift - 1))) >> kShift;
  }
};
// `rate` 0 stands for a trace that is not sampled: every object is one.
SampleWeight sample_weight(uint64_t size, uint64_t rate);

// What the records of one rate stand for together. Remembers the last weight, since objects of one
// cache mostly have one size.
class SampleSum {
 public:
  explicit SampleSum(uint64_t rate) : rate_(rate) {}
  // Returns the weight of this one.
  const SampleWeight& add(uint64_t size) {
    if (size != last_size_) last_ = sample_weight(last_size_ = size, rate_);
    sum_ += last_;
    return last_;
  }
  const SampleWeight& sum() const { return sum_; }

 private:
  const uint64_t rate_;
  uint64_t last_size_ = 0;
  SampleWeight last_ = sample_weight(0, 0);
  SampleWeight sum_ = {};
};
