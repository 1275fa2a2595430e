// Sampling: chooses the allocations that a sampled trace records, and computes the weight of each
// record.
//
// Poisson sampling by bytes: every allocated byte is a sampling point with probability 1/rate,
// independent of all other bytes. An allocation is recorded if it contains a sampling point. So an
// allocation of `size` bytes is recorded with probability
//   p = 1 − e^(−size/rate)
// This means that almost all large objects are recorded, but few small ones. A record has the
// weight of 1/p objects and size/p bytes. The sums of the weights estimate the sums over all
// allocations without bias (Horvitz and Thompson, "A Generalization of Sampling Without Replacement
// From a Finite Universe", JASA 1952). The standard error of an estimate of bytes is the root of
// the sum over the records of (1 − p) (size/p)².
//
// The distance to the next point, divided by its mean, is an exponential random number (a deviate).
// An allocation subtracts size/rate from the remaining distance. If less than size/rate remains,
// the allocation is recorded and a new distance is drawn. The exponential distribution has no
// memory: the remaining distance has the same distribution as a new one. So a restarted trace
// continues the countdown, even with another rate.
//
// All arithmetic is fixed point. Distances have five bits before the binary point and 58 after it.
// The unit is the mean distance. A deviate above 32, about one draw in 10^14, is cut to 32. An
// allocation that subtracts more than 32 is always recorded.
#pragma once

#include <cstdint>

// Limits of the sampling rate, which is the mean number of bytes between two sampling points.
inline constexpr uint64_t kMinSampleRate = 1;
inline constexpr uint64_t kMaxSampleRate = uint64_t{1} << 32;

inline constexpr unsigned kMeanShift = 58;

// The amount that one byte subtracts from a countdown. It is rounded down, with a relative error of
// at most 2^-26.
constexpr uint64_t sample_step(uint64_t rate) {
  return (uint64_t{1} << kMeanShift) / rate;
}
// The amount that an allocation subtracts from a countdown. On overflow this is UINT64_MAX, which
// is more than any deviate.
constexpr uint64_t sample_distance(uint64_t size, uint64_t step) {
  uint64_t distance = 0;
  return __builtin_mul_overflow(size, step, &distance) ? UINT64_MAX : distance;
}

// The countdown of one CPU, used with interrupts off.
class Sampler {
 public:
  bool seeded() const { return seeded_; }
  void seed(uint64_t seed) {
    state_ = seed;
    seeded_ = true;
    left_ = deviate();
  }
  // True if an allocation of `size` bytes is recorded. `step` is sample_step() of the trace's rate.
  // For an allocation that is recorded, draws at most kMinima + 1 random numbers, about two on
  // average. For any other allocation, draws none.
  bool take(uint64_t size, uint64_t step) {
    const uint64_t distance = sample_distance(size, step);
    if (distance <= left_) {
      left_ -= distance;
      return false;
    }
    left_ = deviate();
    return true;
  }
  // Subtracts `distance` (sample_distance()) from the countdown, and returns true if the allocation
  // is not to be recorded. Otherwise returns false, and the caller calls undo_pass() and take(). If
  // `distance` is kAlways, always returns false.
  static constexpr int64_t kAlways = INT64_MAX;
  [[gnu::always_inline]] bool pass(int64_t distance) {
    bool has_point;  // asm: two instructions, for the hooks
    asm("subq %2, %0" : "+m"(left_), "=@ccb"(has_point) : "r"(distance));
    return !has_point;
  }
  [[gnu::always_inline]] void undo_pass(int64_t distance) {
    left_ += static_cast<uint64_t>(distance);
  }
  // Returns an exponential deviate of mean 1 (2^58), less than kAlways. It is exact to the last
  // bit, and cut at 32.
  uint64_t deviate();

 private:
  uint64_t random();
  uint64_t uncut_deviate();

  uint64_t state_ = 0;
  uint64_t left_ = 0;
  bool seeded_ = false;
};

// The weight of a recorded allocation: 1/p objects, with a relative error below 2^-16, and size/p
// bytes, with a relative error below 2^-24. Both are in units of 2^-16. A sum of weights fits in 64
// bits up to 2^48 bytes. Allocations of size 0 are never sampled; their weight is one object.
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
// `rate` 0 means a trace that is not sampled: the weight is one object and its size.
SampleWeight sample_weight(uint64_t size, uint64_t rate);

// The sum of the weights of records that were sampled at one rate. Caches the last weight, because
// the objects of a cache usually have the same size.
class SampleSum {
 public:
  explicit SampleSum(uint64_t rate) : rate_(rate) {}
  // Adds a record of `size` bytes, and returns its weight.
  const SampleWeight& add(uint64_t size) {
    if (size != last_size_) last_ = sample_weight(last_size_ = size, rate_);
    sum_ += last_;
    return last_;
  }
  const SampleWeight& sum() const { return sum_; }

 private:
  uint64_t rate_;
  uint64_t last_size_ = 0;
  SampleWeight last_ = sample_weight(0, 0);
  SampleWeight sum_ = {};
};
