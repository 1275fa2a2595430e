#include "arch/x86_64/real_time_clock_impl.h"

#include "arch/x86_64/io.h"

namespace {

uint8_t clock_register(uint8_t index) {
  out8(0x70, index);
  return in8(0x71);
}

// Seconds since 1970 of a date of the Gregorian calendar, after Hinnant, "chrono-compatible
// low-level date algorithms".
uint64_t seconds_since_1970(uint64_t year, uint64_t month, uint64_t day, uint64_t hour,
                            uint64_t minute, uint64_t second) {
  year -= month <= 2;
  const uint64_t era = year / 400, year_of_era = year % 400;
  const uint64_t day_of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
  const uint64_t day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
  return ((era * 146097 + day_of_era - 719468) * 24 + hour) * 3600 + minute * 60 + second;
}

}  // namespace

uint64_t real_time_clock_read() {
  const uint8_t status = clock_register(0x0b);
  const bool binary = status & 4, hours24 = status & 2;
  const auto number = [binary](uint8_t value) -> uint64_t {
    return binary ? value : (value >> 4) * 10 + (value & 15);
  };
  uint8_t raw[6], again[6];
  constexpr uint8_t kRegisters[6] = {0, 2, 4, 7, 8, 9};
  bool same;
  do {  // repeats until two readings agree: then neither was taken during an update
    same = true;
    for (int i = 0; i < 6; i++) raw[i] = clock_register(kRegisters[i]);
    for (int i = 0; i < 6; i++) {
      again[i] = clock_register(kRegisters[i]);
      same = same && raw[i] == again[i];
    }
  } while (!same);
  uint64_t hour = number(raw[2] & 0x7f);
  const uint64_t day = number(raw[3]), month = number(raw[4]);
  if (month < 1 || month > 12 || day < 1 || day > 31 || hour > 24) return 0;
  if (!hours24) hour = hour % 12 + (raw[2] & 0x80 ? 12 : 0);
  return seconds_since_1970(2000 + number(raw[5]), month, day, hour, number(raw[1]),
                            number(raw[0]));
}

uint8_t real_time_clock_second() {
  return clock_register(0);
}
