// The battery-backed clock of a PC (Motorola MC146818A data sheet).
#pragma once

#include <cstdint>

// Returns the seconds since 1970; 0 if there is no clock, or if it has no valid date. Takes the
// clock's time as UTC, in the years 2000 to 2099.
uint64_t real_time_clock_read();
// Returns the register of the seconds, in the clock's own format.
uint8_t real_time_clock_second();
