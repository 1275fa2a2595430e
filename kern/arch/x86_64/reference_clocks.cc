#include "arch/x86_64/reference_clocks_impl.h"

#include "arch/x86_64/acpi.h"
#include "arch/x86_64/fixed_devices_impl.h"
#include "arch/x86_64/io.h"
#include "arch/x86_64/real_time_clock_impl.h"

namespace {

constexpr uint64_t kPmTimerHz = 3'579'545, kPitHz = 1'193'182;
constexpr uint64_t kFemtoseconds = 1'000'000'000'000'000;
constexpr uint64_t kMostHertz = uint64_t{1} << 27;

uint64_t read_pm_timer() {
  return in32(acpi_info().pm_timer_port) & acpi_info().pm_timer_mask;
}

enum HpetRegister : uint64_t { kCapabilities = 0x00, kConfiguration = 0x10, kCounter = 0xf0 };
volatile uint32_t& hpet(uint64_t reg) {
  return *fixed_device<volatile uint32_t>(FixedDevice::kHpet, acpi_info().hpet + reg);
}

// The lower half of the counter, since a read of both halves is not atomic everywhere.
uint64_t read_hpet() {
  return hpet(kCounter);
}

std::optional<ReferenceClock> find_hpet() {
  if (acpi_info().hpet.value == 0) return {};
  const uint64_t period = hpet(kCapabilities + 4);
  constexpr uint64_t kLongestPeriod = 100'000'000;  // by the specification
  if (period == 0 || period > kLongestPeriod || kFemtoseconds / period > kMostHertz) return {};
  hpet(kConfiguration) = hpet(kConfiguration) | 1;  // the counter runs
  return ReferenceClock{"HPET", kFemtoseconds / period, UINT32_MAX, read_hpet, nullptr};
}

constexpr uint64_t kPitMask = 0xffff;

// Mode 0: the channel counts down from 0xffff once. Its output rises at the end.
void start_pit() {
  out8(0x43, 0x30);  // channel 0, both bytes, mode 0
  out8(0x40, 0xff);
  out8(0x40, 0xff);
}

uint64_t read_pit() {
  constexpr uint8_t kOutput = 0x80, kNotLoaded = 0x40;
  out8(0x43, 0xc2);  // latches status and count of channel 0
  const uint8_t status = in8(0x40);
  const uint64_t low = in8(0x40), count = low | uint64_t{in8(0x40)} << 8;
  if (status & kNotLoaded) return 0;
  return status & kOutput ? kClockRanOut : kPitMask - count;
}

// Waits until the seconds change. Returns the time of the first reading after the change, or 0 if
// they do not change.
uint64_t next_second(uint64_t (*ticks)()) {
  constexpr unsigned kReadings = 10'000'000;  // of about a microsecond
  const uint8_t second = real_time_clock_second();
  for (unsigned i = 0; i < kReadings; i++) {
    if (real_time_clock_second() != second) return ticks();
  }
  return 0;
}

}  // namespace

std::optional<ReferenceClock> reference_clock(unsigned i) {
  switch (i) {
    case 0:
      if (acpi_info().pm_timer_port == 0) return {};
      return ReferenceClock{"ACPI timer", kPmTimerHz, acpi_info().pm_timer_mask, read_pm_timer,
                            nullptr};
    case 1:
      return find_hpet();
    case 2:
      return ReferenceClock{"8254", kPitHz, kPitMask, read_pit, start_pit};
  }
  return {};
}

uint64_t rate_from_real_time_clock(uint64_t (*ticks)()) {
  const uint64_t first = next_second(ticks);
  const uint64_t last = first == 0 ? 0 : next_second(ticks);
  return last == 0 ? 0 : last - first;
}
