// Clocks of known rate against which time.cc measures the time stamp counter.
#pragma once

#include <optional>

#include "arch/x86_64/clock_rate_impl.h"

// Number of clocks that reference_clock() knows, whether the machine has them or not.
inline constexpr unsigned kReferenceClocks = 3;

// Returns clock `i`, below kReferenceClocks; nothing if the machine does not have it. The best
// clock comes first. A clock may stand still all the same: chipsets can turn the 8254 off. Called
// after paging_init(). Only one CPU may use a clock at a time. The clocks:
//
// - ACPI's power management timer (ACPI 6.4, section 4.8.3.3), if the FADT has one;
// - the HPET (IA-PC HPET specification 1.0a, section 2.3), if its table exists;
// - channel 0 of the 8254. Its gate is always open. Port 0x61, which controls the gate of channel
//   2, does not exist on every machine. The interrupt of channel 0 is masked.
std::optional<ReferenceClock> reference_clock(unsigned i);

// Measures the rate of the time stamp counter in hertz by the seconds of the real-time clock, which
// takes one to two seconds; 0 if this clock stands still. For machines without another clock.
uint64_t rate_from_real_time_clock(uint64_t (*ticks)());
