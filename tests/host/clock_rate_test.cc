// The measurement of the time stamp counter's rate, on a machine whose processor stops at random.
#include "arch/x86_64/clock_rate_impl.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace {

constexpr double kSecond = 1e9;  // in nanoseconds

// Time goes on with each access to a clock. `stops` is the probability that the processor stops
// after an access; a stop takes up to `longest` nanoseconds.
struct Machine {
  std::mt19937_64 random{1};
  double now = 0, hertz = 2.4e9, stops = 0, longest = 0;
  double reference_hertz = 1'193'182, started = 0;
  uint64_t mask = 0xffff;
  bool is_dead = false;
  unsigned reads = 0;

  double uniform(double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random);
  }
  void pass(double nanoseconds) {
    now += nanoseconds;
    if (uniform(0, 1) < stops) now += uniform(0, longest);
  }
  uint64_t counts() const {
    return is_dead ? 0 : static_cast<uint64_t>((now - started) * reference_hertz / kSecond);
  }
};
Machine machine;

uint64_t ticks() {
  machine.pass(machine.uniform(5, 20));
  const auto value = static_cast<uint64_t>(machine.now * machine.hertz / kSecond);
  machine.pass(machine.uniform(5, 20));
  return value;
}
uint64_t read_running() {
  machine.reads++;
  machine.pass(machine.uniform(100, 800));
  const uint64_t count = machine.counts() & machine.mask;
  machine.pass(machine.uniform(100, 800));
  return count;
}
void start_one_shot() {
  machine.pass(1000);
  machine.started = machine.now;
}
uint64_t read_one_shot() {
  machine.reads++;
  machine.pass(machine.uniform(300, 2000));
  const uint64_t count = machine.counts() > machine.mask ? kClockRanOut : machine.counts();
  machine.pass(machine.uniform(300, 2000));
  return count;
}

const ReferenceClock kOneShot{"one shot", 1'193'182, 0xffff, read_one_shot, start_one_shot};
const ReferenceClock kRunning{"running", 3'579'545, 0xffffff, read_running, nullptr};

Machine machine_for(const ReferenceClock& clock, uint64_t seed) {
  Machine made;
  made.random.seed(seed);
  made.reference_hertz = static_cast<double>(clock.hertz);
  made.mask = clock.mask;
  made.now = made.uniform(0, 10 * kSecond);  // the counts of a running clock wrap at any time
  made.hertz = made.uniform(5e8, 6e9);
  return made;
}

double error_of(const ClockRate& rate) {
  return std::abs(static_cast<double>(rate.hertz) - machine.hertz);
}

// Of 16 threads that share two processors each waits for tens of milliseconds, often.
class StopsOften : public testing::TestWithParam<const ReferenceClock*> {};

TEST_P(StopsOften, rate_is_right) {
  for (uint64_t seed = 1; seed <= 300; seed++) {
    machine = machine_for(*GetParam(), seed);
    machine.stops = 0.001;
    machine.longest = 30e6;
    const std::optional<ClockRate> rate = measure_rate(ticks, *GetParam());
    ASSERT_TRUE(rate) << "seed " << seed;
    EXPECT_LE(error_of(*rate), static_cast<double>(rate->doubt) + 1) << "seed " << seed;
    EXPECT_LT(error_of(*rate), machine.hertz / 1000) << "seed " << seed;
  }
}
INSTANTIATE_TEST_SUITE_P(Clocks, StopsOften, testing::Values(&kOneShot, &kRunning));

TEST(ClockRate, an_undisturbed_measurement_is_short_and_good) {
  for (const ReferenceClock* clock : {&kOneShot, &kRunning}) {
    for (uint64_t seed = 1; seed <= 100; seed++) {
      machine = machine_for(*clock, seed);
      const double before = machine.now;
      const std::optional<ClockRate> rate = measure_rate(ticks, *clock);
      ASSERT_TRUE(rate);
      EXPECT_LE(rate->doubt, rate->hertz / kRateGoal);
      EXPECT_LE(error_of(*rate), static_cast<double>(rate->doubt) + 1) << "seed " << seed;
      EXPECT_LT(machine.now - before, kSecond / 40);
    }
  }
}

TEST(ClockRate, a_clock_that_stands_still_is_given_up) {
  for (const ReferenceClock* clock : {&kOneShot, &kRunning}) {
    machine = machine_for(*clock, 1);
    machine.is_dead = true;
    EXPECT_FALSE(measure_rate(ticks, *clock));
    EXPECT_LT(machine.reads, 100'000u);
  }
}

TEST(ClockRate, a_clock_of_one_shot_that_always_runs_out_is_given_up) {
  machine = machine_for(kOneShot, 1);
  machine.stops = 1;
  machine.longest = 1e9;
  const std::optional<ClockRate> rate = measure_rate(ticks, kOneShot);
  // If a reading came in time after all, its doubt says what it is worth.
  if (rate) {
    EXPECT_LE(error_of(*rate), static_cast<double>(rate->doubt) + 1);
  }
  EXPECT_LT(machine.reads, 1000u);
}

TEST(ClockRate, the_narrowest_of_several_readings_is_taken) {
  for (uint64_t seed = 1; seed <= 200; seed++) {
    machine = machine_for(kRunning, seed);
    machine.stops = 0.1;
    machine.longest = 10e6;
    const ClockSample sample = sample_clock(ticks, read_running, 16);
    EXPECT_LT(static_cast<double>(sample.doubt), 2000 * machine.hertz / kSecond);
  }
}

TEST(ClockRate, a_second_clock_is_measured_by_the_first) {
  const ClockSample first{0xfffffff0, 1'000'000, 5}, last{0x0004'ffef, 11'000'000, 5};
  const uint64_t rate = rate_from_samples(first, last, UINT32_MAX, 2'000'000'000);
  EXPECT_NEAR(static_cast<double>(rate), 0x4ffff / 0.005, 0x4ffff / 0.005 / 1000);
  EXPECT_EQ(rate_from_samples(first, first, UINT32_MAX, 2'000'000'000), 0u);
}

CpuidLeaf leaves[2][0x20];  // from 0 and from 0x40000000
CpuidLeaf read_leaf(uint32_t leaf) {
  return leaves[leaf >> 30 & 1][leaf & 0x1f];
}
void set_signature(const char* text) {
  CpuidLeaf& leaf = leaves[1][0];
  memcpy(&leaf.ebx, text, 4);
  memcpy(&leaf.ecx, text + 4, 4);
  memcpy(&leaf.edx, text + 8, 4);
}

TEST(ClockRate, a_processor_tells_its_crystal) {
  memset(leaves, 0, sizeof(leaves));
  leaves[0][0x15] = {2, 216, 24'000'000, 0};
  leaves[0][0].eax = 0xd;
  EXPECT_EQ(rate_from_cpuid(read_leaf), 0u) << "the leaf does not exist";
  leaves[0][0].eax = 0x16;
  EXPECT_EQ(rate_from_cpuid(read_leaf), 2'592'000'000u);
  leaves[0][0x15].ecx = 0;
  EXPECT_EQ(rate_from_cpuid(read_leaf), 0u) << "the crystal's rate is not known";
}

TEST(ClockRate, a_known_hypervisor_tells_its_rate) {
  memset(leaves, 0, sizeof(leaves));
  leaves[0][0].eax = 0x16;
  leaves[0][0x15] = {2, 216, 24'000'000, 0};
  leaves[0][1].ecx = 1u << 31;
  leaves[1][0].eax = 0x40000010;
  leaves[1][0x10].eax = 3'000'000;
  set_signature("TCGTCGTCGTCG");
  EXPECT_EQ(rate_from_cpuid(read_leaf), 0u);
  set_signature("VMwareVMware");
  EXPECT_EQ(rate_from_cpuid(read_leaf), 3'000'000'000u);
  set_signature("KVMKVMKVM\0\0\0");
  EXPECT_EQ(rate_from_cpuid(read_leaf), 3'000'000'000u);
  leaves[1][0].eax = 0x40000001;
  EXPECT_EQ(rate_from_cpuid(read_leaf), 0u) << "the leaf does not exist";
}

}  // namespace
