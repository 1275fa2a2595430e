// Measures the rate of the time stamp counter against a clock of known rate.
//
// A processor may stop for a while at any instruction: its host runs another thread, or firmware
// handles a system management interrupt. So each reading of the reference clock lies between two
// readings of the time stamp counter. The true value of the counter lies between the two, and half
// their distance bounds the error. A rate is taken from two readings that are far apart. Its error
// is bounded by the errors of both readings and by one count of the reference clock. If the second
// reading was disturbed, another one is taken later. So an interruption costs time, but no
// accuracy.
//
// This file touches no hardware. The host tests run it with clocks that stop.
#pragma once

#include <cstdint>
#include <optional>

// A clock of one shot returns this count when it has run out and must be started again.
inline constexpr uint64_t kClockRanOut = UINT64_MAX;

struct ReferenceClock {
  const char* name;
  uint64_t hertz;      // at most 2^27
  uint64_t mask;       // the count goes from `mask` to 0
  uint64_t (*read)();  // returns the count, which rises, or kClockRanOut
  void (*start)();     // starts a clock of one shot; nullptr: the clock always runs
};

// One reading of a clock.
struct ClockSample {
  uint64_t count;
  uint64_t ticks;  // the time stamp counter at the time of the reading
  uint64_t doubt;  // `ticks` is wrong by at most this many ticks
};

// Reads a clock `tries` times, and returns the reading with the smallest doubt. `ticks` reads the
// time stamp counter, in program order with other loads.
ClockSample sample_clock(uint64_t (*ticks)(), uint64_t (*read)(), unsigned tries);

struct ClockRate {
  uint64_t hertz;
  uint64_t doubt;  // `hertz` is wrong by at most this much
};

// The rate is measured for at least 1/kShortestMeasurement s. The measurement ends when the doubt
// is at most 1/kRateGoal of the rate, or after 1/kLongestMeasurement s. The result is then the best
// rate that was seen.
inline constexpr uint64_t kShortestMeasurement = 200, kLongestMeasurement = 5, kRateGoal = 4000;

// Returns the rate of the time stamp counter in hertz. Nothing if the clock stands still, or ran
// out in each of several attempts. A stop of a whole period of the clock (4.7 s for ACPI's timer)
// is not noticed, except for a clock of one shot.
std::optional<ClockRate> measure_rate(uint64_t (*ticks)(), const ReferenceClock& clock);

// Returns the rate of a second clock in hertz, from two readings of it and the time stamp
// counter's rate; 0 if the clock stands still. `mask` is as in ReferenceClock.
uint64_t rate_from_samples(const ClockSample& first, const ClockSample& last, uint64_t mask,
                           uint64_t ticks_hertz);

struct CpuidLeaf {
  uint32_t eax, ebx, ecx, edx;
};
// Returns the rate of the time stamp counter in hertz as CPUID gives it; 0 if CPUID does not. On a
// bare processor: leaf 0x15, if it has the crystal's rate (Intel SDM volume 3, section 20.7.3).
// Under KVM and VMware: leaf 0x40000010. Under other hypervisors leaf 0x15 may not
// describe their clock.
uint64_t rate_from_cpuid(CpuidLeaf (*read)(uint32_t leaf));
