#include "arch/x86_64/clock_rate_impl.h"

#include "lib/string.h"

namespace {

constexpr unsigned kFirstTries = 16;      // readings from which the first one is chosen
constexpr unsigned kAttempts = 8;         // starts of a clock of one shot
constexpr unsigned kStandsStill = 20000;  // equal readings, after which a clock counts as stopped
// A measurement with more ticks than this met a stop of many seconds. It is thrown away, so that
// the products below fit in 64 bits.
constexpr uint64_t kMostTicks = uint64_t{1} << 36;

struct Attempt {
  ClockRate best{0, 0};
  bool is_done = false;
  bool stands_still = false;
};

bool is_better(const ClockRate& rate, const ClockRate& than) {
  if (than.hertz == 0) return true;
  return static_cast<unsigned __int128>(rate.doubt) * than.hertz <
         static_cast<unsigned __int128>(than.doubt) * rate.hertz;
}

ClockRate rate_between(const ClockSample& first, const ClockSample& last, uint64_t counts,
                       uint64_t hertz) {
  const uint64_t ticks = last.ticks - first.ticks;
  const uint64_t doubt = first.doubt + last.doubt + ticks / counts + 1;
  return {ticks * hertz / counts, doubt * hertz / counts};
}

Attempt attempt(uint64_t (*ticks)(), const ReferenceClock& clock) {
  Attempt result;
  if (clock.start) clock.start();
  const ClockSample first = sample_clock(ticks, clock.read, kFirstTries);
  if (first.count == kClockRanOut) return result;
  for (unsigned equal = 0; equal < kStandsStill;) {
    const ClockSample last = sample_clock(ticks, clock.read, 1);
    if (last.count == kClockRanOut || last.ticks - first.ticks > kMostTicks) return result;
    const uint64_t counts = (last.count - first.count) & clock.mask;
    if (counts == 0) equal++;
    if (counts < clock.hertz / kShortestMeasurement) continue;
    const ClockRate rate = rate_between(first, last, counts, clock.hertz);
    if (is_better(rate, result.best)) result.best = rate;
    result.is_done = result.best.doubt <= result.best.hertz / kRateGoal ||
                     counts >= clock.hertz / kLongestMeasurement;
    if (result.is_done) return result;
  }
  result.stands_still = true;
  return result;
}

bool is_signature(const CpuidLeaf& leaf, const char* text) {
  return memcmp(&leaf.ebx, text, 4) == 0 && memcmp(&leaf.ecx, text + 4, 4) == 0 &&
         memcmp(&leaf.edx, text + 8, 4) == 0;
}

}  // namespace

ClockSample sample_clock(uint64_t (*ticks)(), uint64_t (*read)(), unsigned tries) {
  ClockSample best{kClockRanOut, 0, UINT64_MAX};
  for (unsigned i = 0; i < tries; i++) {
    const uint64_t before = ticks();
    const uint64_t count = read();
    const uint64_t width = ticks() - before, doubt = (width + 1) / 2;
    if (doubt < best.doubt) best = {count, before + width / 2, doubt};
  }
  return best;
}

std::optional<ClockRate> measure_rate(uint64_t (*ticks)(), const ReferenceClock& clock) {
  ClockRate best{0, 0};
  for (unsigned i = 0; i < kAttempts; i++) {
    const Attempt made = attempt(ticks, clock);
    if (made.stands_still) return {};
    if (made.best.hertz != 0 && is_better(made.best, best)) best = made.best;
    if (made.is_done) break;
  }
  if (best.hertz == 0) return {};
  return best;
}

uint64_t rate_from_samples(const ClockSample& first, const ClockSample& last, uint64_t mask,
                           uint64_t ticks_hertz) {
  // The shift keeps the product in 64 bits.
  constexpr unsigned kShift = 10;
  const uint64_t ticks = (last.ticks - first.ticks) >> kShift;
  const uint64_t counts = (last.count - first.count) & mask;
  return ticks == 0 ? 0 : counts * (ticks_hertz >> kShift) / ticks;
}

uint64_t rate_from_cpuid(CpuidLeaf (*read)(uint32_t leaf)) {
  constexpr uint32_t kHypervisor = uint32_t{1} << 31, kSignature = 0x40000000,
                     kHypervisorRates = 0x40000010, kCrystal = 0x15;
  if (read(1).ecx & kHypervisor) {
    const CpuidLeaf signature = read(kSignature);
    const bool is_known =
        is_signature(signature, "KVMKVMKVM\0\0\0") || is_signature(signature, "VMwareVMware");
    if (!is_known || signature.eax < kHypervisorRates) return 0;
    return uint64_t{read(kHypervisorRates).eax} * 1000;
  }
  if (read(0).eax < kCrystal) return 0;
  const CpuidLeaf crystal = read(kCrystal);
  if (crystal.eax == 0 || crystal.ebx == 0 || crystal.ecx == 0) return 0;
  return uint64_t{crystal.ecx} * crystal.ebx / crystal.eax;
}
