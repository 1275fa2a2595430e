#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <random>
#include <vector>

#include "trace/record/sampler.h"

namespace {

double real(uint64_t deviate) {
  return std::ldexp(static_cast<double>(deviate), -static_cast<int>(kMeanShift));
}
double probability(uint32_t size, uint64_t rate) {
  return -std::expm1(-static_cast<double>(size) / static_cast<double>(rate));
}
// Returns a multiple of 8, from 8 to just below 1 MiB. Each range from a power of two to the next
// is equally likely.
uint32_t mixed_size(std::mt19937_64& random) {
  const auto power = static_cast<unsigned>(random() % 17);
  return static_cast<uint32_t>((uint64_t{8} << power) + random() % (uint64_t{8} << power)) & ~7u;
}

struct Estimate {
  SampleWeight sum = {};
  double variance = 0;         // of the sum of bytes
  double object_variance = 0;  // of the number of objects

  void add(uint32_t size, uint64_t rate) {
    const SampleWeight weight = sample_weight(size, rate);
    sum += weight;
    const double bytes = std::ldexp(static_cast<double>(weight.bytes), -16);
    variance += (1 - size / bytes) * bytes * bytes;
    object_variance += (1 - size / bytes) * std::pow(bytes / size, 2);
  }
  double bytes() const { return static_cast<double>(sum.whole_bytes()); }
  double standard_error() const { return std::sqrt(variance); }
};

TEST(SamplerTest, DeviatesAreExponential) {
  Sampler sampler;
  sampler.seed(1);
  constexpr int kCount = 4'000'000;
  double sum = 0, squares = 0, longest = 0;
  // The number of deviates in each of 20 intervals. A deviate of the exponential distribution lies
  // in each of these intervals with the same probability.
  std::vector<int> twentieths(20);
  for (int i = 0; i < kCount; i++) {
    const double x = real(sampler.deviate());
    sum += x;
    squares += x * x;
    longest = std::max(longest, x);
    twentieths[std::min<size_t>(19, static_cast<size_t>(-std::expm1(-x) * 20))]++;
  }
  const double mean = sum / kCount;
  // The mean and the variance may each be wrong by five standard errors. For n deviates, the
  // standard error of the mean is 1/√n, and the standard error of the variance is √8/√n.
  EXPECT_NEAR(mean, 1, 5 / std::sqrt(kCount));
  EXPECT_NEAR(squares / kCount - mean * mean, 1, 5 * std::sqrt(8.0 / kCount));
  EXPECT_GT(longest, 10);
  EXPECT_LE(longest, 64 * std::numbers::ln2);
  double chi_square = 0;
  for (const int n : twentieths) chi_square += std::pow(n - kCount / 20.0, 2) / (kCount / 20.0);
  EXPECT_LT(chi_square, 50) << "19 degrees of freedom: 43.8 in one case of a thousand";
}

TEST(SamplerTest, SeedsGiveDifferentSequences) {
  Sampler a, b, c;
  EXPECT_FALSE(a.seeded());
  a.seed(0);
  b.seed(1);
  c.seed(0);
  EXPECT_TRUE(a.seeded());
  int equal = 0;
  for (int i = 0; i < 1000; i++) {
    const uint64_t x = a.deviate();
    equal += x == b.deviate();
    EXPECT_EQ(x, c.deviate());
  }
  EXPECT_LT(equal, 5);
}

TEST(SamplerTest, AnAllocationIsTakenWithItsProbability) {
  Sampler sampler;
  sampler.seed(2);
  for (const uint64_t rate :
       {uint64_t{1}, uint64_t{100}, uint64_t{4096}, uint64_t{512} << 10, kMaxSampleRate}) {
    for (const double ratio : {0.0001, 0.01, 0.3, 1.0, 3.0, 100.0}) {
      const double wanted = ratio * static_cast<double>(rate);
      if (wanted < 1 || wanted > UINT32_MAX) continue;
      const auto size = static_cast<uint32_t>(wanted);
      const double p = probability(size, rate);
      constexpr int kCount = 500'000;
      int taken = 0;
      for (int i = 0; i < kCount; i++) taken += sampler.take(size, sample_step(rate));
      EXPECT_NEAR(taken, p * kCount, 5 * std::sqrt(p * (1 - p) * kCount) + 1e-6)
          << "size " << size << " rate " << rate;
    }
  }
}

TEST(SamplerTest, ExtremeSizesAndRates) {
  Sampler sampler;
  sampler.seed(3);
  for (int i = 0; i < 1000; i++) {
    // At a rate of 1, the distance between two sampling points is one byte on average. It is less
    // than 32 bytes, because a deviate is cut at 32. So an object of 45 bytes is always recorded.
    // An object of the largest size is always recorded, too, although sample_distance() overflows
    // for this size.
    EXPECT_TRUE(sampler.take(45, sample_step(1)));
    EXPECT_TRUE(sampler.take(UINT32_MAX, sample_step(1)));
    EXPECT_TRUE(sampler.take(UINT32_MAX, sample_step(1000)));
    EXPECT_FALSE(sampler.take(0, sample_step(1))) << "there is no point in nothing";
  }
  // At kMaxSampleRate, a distance of one byte is 2^-32 of the mean distance. This must not be
  // rounded to zero.
  EXPECT_EQ(sample_distance(1, sample_step(kMaxSampleRate)), uint64_t{1} << (kMeanShift - 32));
  EXPECT_EQ(sample_distance(UINT32_MAX, sample_step(1)), UINT64_MAX);
}

TEST(SampleWeightTest, IsTheInverseOfTheProbability) {
  std::mt19937_64 random(4);
  const auto check = [](uint32_t size, uint64_t rate) {
    const double p = probability(size, rate);
    const SampleWeight weight = sample_weight(size, rate);
    const double objects = std::ldexp(static_cast<double>(weight.objects), -16);
    const double bytes = std::ldexp(static_cast<double>(weight.bytes), -16);
    EXPECT_NEAR(objects * p, 1, std::ldexp(1, -16) + 1e-7) << "size " << size << " rate " << rate;
    EXPECT_NEAR(bytes * p / size, 1, std::ldexp(1, -24) + std::ldexp(1, -16) / size * p)
        << "size " << size << " rate " << rate;
  };
  for (const uint64_t rate : {kMinSampleRate, uint64_t{2}, uint64_t{3}, uint64_t{1000},
                              uint64_t{512} << 10, kMaxSampleRate - 1, kMaxSampleRate}) {
    for (const uint32_t size : {1u, 2u, 8u, 64u, 4096u, 1u << 20, UINT32_MAX}) check(size, rate);
    // The formula changes at size == rate: check both sides.
    if (rate < UINT32_MAX) {
      check(static_cast<uint32_t>(rate), rate);
      check(static_cast<uint32_t>(rate + 1), rate);
    }
  }
  for (int i = 0; i < 200'000; i++) {
    const uint64_t rate = 1 + (random() >> (32 + random() % 32));
    const auto size = static_cast<uint32_t>(1 + (random() >> (33 + random() % 31)));
    check(size, rate);
  }
}

TEST(SampleWeightTest, WithoutSamplingEachIsOne) {
  EXPECT_EQ(sample_weight(100, 0).whole_bytes(), 100u);
  EXPECT_EQ(sample_weight(100, 0).whole_objects(), 1u);
  EXPECT_EQ(sample_weight(0, 0).whole_bytes(), 0u);
  EXPECT_EQ(sample_weight(0, 4096).whole_objects(), 1u);
}

// The result of a simulated program, which has tens of thousands of live objects, and replaces or
// frees them at random.
struct Program {
  double truth = 0, objects = 0;  // bytes and number of live objects at the end
  Estimate estimate;              // estimates of both numbers, from the recorded objects
};

Program run(uint64_t seed, uint64_t rate, int allocations) {
  struct Slot {
    uint32_t size = 0;
    bool recorded = false;
  };
  std::mt19937_64 random(seed);
  Sampler cpus[4];
  for (Sampler& cpu : cpus) cpu.seed(random());
  const uint64_t step = sample_step(rate);
  std::vector<Slot> slots(50'000);
  for (int i = 0; i < allocations; i++) {
    const uint32_t size = mixed_size(random);
    const uint64_t choice = random();
    slots[choice % slots.size()] = {size, cpus[choice >> 62].take(size, step)};
    if (choice >> 32 & 1) slots[(choice >> 33) % slots.size()] = {};
  }
  Program program;
  for (const Slot& slot : slots) {
    program.truth += slot.size;
    program.objects += slot.size > 0;
    if (slot.recorded) program.estimate.add(slot.size, rate);
  }
  return program;
}

TEST(SamplingTest, AHundredRunsOfAMillionAllocationsEstimateWhatIsLive) {
  constexpr int kRuns = 100;
  double error = 0, objects = 0, estimated_objects = 0, object_variance = 0;
  for (int i = 0; i < kRuns; i++) {
    const Program result = run(1000 + i, 512 << 10, 1'000'000);
    const double difference = result.estimate.bytes() - result.truth;
    EXPECT_LE(std::abs(difference), 5 * result.estimate.standard_error()) << "seed " << 1000 + i;
    error += difference / result.truth / kRuns;
    objects += result.objects;
    estimated_objects += static_cast<double>(result.estimate.sum.whole_objects());
    object_variance += result.estimate.object_variance;
  }
  EXPECT_LT(std::abs(error), 0.01);
  RecordProperty("mean_error_ppm", static_cast<int>(error * 1e6));
  // One recorded small object represents thousands of objects. So the estimated number of objects
  // is less exact than the estimated bytes.
  EXPECT_LE(std::abs(estimated_objects - objects), 5 * std::sqrt(object_variance));
  RecordProperty("object_error_ppm", static_cast<int>((estimated_objects / objects - 1) * 1e6));
}

TEST(SamplingTest, OtherRates) {
  for (const uint64_t rate : {1, 64, 10'000, 1 << 20, 100 << 20}) {
    const Program result = run(rate, rate, 300'000);
    EXPECT_LE(std::abs(result.estimate.bytes() - result.truth),
              5 * result.estimate.standard_error() + result.truth * 1e-6)
        << "rate " << rate;
  }
}

}  // namespace
