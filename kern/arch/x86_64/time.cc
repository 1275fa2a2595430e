// Time. The time stamp counter is calibrated once against the 8254 timer, together with the local
// APIC's timer, which then gives each CPU its periodic tick. Under QEMU -icount a tick of the
// counter is one instruction.
#include "arch/x86_64/time.h"

#include <atomic>

#include "arch/x86_64/interrupt_controller.h"
#include "arch/x86_64/io.h"
#include "arch/x86_64/trap.h"
#include "core/cpu.h"
#include "core/log.h"

constinit std::atomic<uint64_t> coarse_time{0};

namespace {

constexpr uint64_t kPitHz = 1'193'182;
constexpr uint64_t kCalibrationHz = 200;  // one calibration takes 5 ms
constexpr unsigned kMaxTickHandlers = 4;

constinit uint64_t start_tsc = 0;
constinit uint64_t nanoseconds_per_tick = 0;  // 32.32 fixed point; 0 until measured
constinit uint32_t timer_count = 0;
constinit std::atomic<uint64_t> wall_at_boot{0};  // nanoseconds from 1970 to boot, modulo 2^64
void (*tick_handlers[kMaxTickHandlers])() = {};

void on_timer(TrapFrame&, void*) {
  Cpu& cpu = this_cpu();
  if (cpu.id == kBootCpu)
    coarse_time.store(monotonic_now().value / 1'000'000, std::memory_order_relaxed);
  cpu.stamp = cpu_stamp(cpu.id, coarse_milliseconds());
  for (auto* handler : tick_handlers) {
    if (handler) handler();
  }
}

// One run of the 8254's counter, and a bound of the error. The readings at the counter's start and
// end may be late, for example if the host stops the thread of an emulated CPU for a while.
struct Calibration {
  uint64_t ticks, start;  // measured in ticks of the time stamp counter
  uint32_t timer_ticks;   // ticks of the local APIC's timer
  uint64_t doubt;         // possible error of the measurement, in ticks
};

Calibration calibrate_once() {
  constexpr uint16_t kCount = kPitHz / kCalibrationHz;
  out8(0x61, (in8(0x61) & ~2) | 1);  // channel 2 counts, speaker off
  out8(0x43, 0xb0);                  // channel 2, both bytes, mode 0: output rises at the end
  out8(0x42, kCount & 0xff);
  local_apic_timer_run();
  const uint64_t before_start = tsc();
  out8(0x42, kCount >> 8);
  const uint32_t timer_start = local_apic_timer_left();
  const uint64_t start = tsc();
  uint64_t before_end, end = start;
  bool over;
  do {
    before_end = end;
    over = in8(0x61) & 0x20;
    end = tsc();
  } while (!over);
  const uint32_t timer_ticks = timer_start - local_apic_timer_left();
  return {end - start, start, timer_ticks, (start - before_start) + (tsc() - before_end)};
}

void calibrate() {
  constexpr int kTries = 20;
  constexpr uint64_t kGoodEnough = 200;  // an error of at most 1/200
  Calibration best = calibrate_once();
  for (int i = 1; i < kTries && best.doubt > best.ticks / kGoodEnough; i++) {
    const Calibration next = calibrate_once();
    if (next.doubt < best.doubt) best = next;
  }
  timer_count = static_cast<uint32_t>(uint64_t{best.timer_ticks} * kCalibrationHz / kTickHz);
  nanoseconds_per_tick = (uint64_t{1'000'000'000} << 32) / (best.ticks * kCalibrationHz);
  start_tsc = best.start;
}

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

uint64_t read_clock() {
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
  if (!hours24) hour = hour % 12 + (raw[2] & 0x80 ? 12 : 0);
  return seconds_since_1970(2000 + number(raw[5]), number(raw[4]), number(raw[3]), hour,
                            number(raw[1]), number(raw[0]));
}

}  // namespace

void time_init() {
  calibrate();
  wall_at_boot = read_clock() * 1'000'000'000;
  if (!interrupt_register_vector(kVectorTimer, "timer", on_timer, nullptr))
    panic("the timer's vector is taken");
}

void time_start_tick() {
  local_apic_timer_periodic(timer_count);
}

Nanoseconds monotonic_now() {
  const unsigned __int128 ticks = tsc() - start_tsc;
  return {static_cast<uint64_t>(ticks * nanoseconds_per_tick >> 32)};
}

Nanoseconds wall_now() {
  return monotonic_now() + Nanoseconds{wall_at_boot.load(std::memory_order_relaxed)};
}

void wall_set(Nanoseconds now) {
  wall_at_boot.store((now - monotonic_now()).value, std::memory_order_relaxed);
}

uint64_t boot_wall_seconds() {
  const uint64_t at_boot = wall_at_boot.load(std::memory_order_relaxed);
  return static_cast<int64_t>(at_boot) < 0 ? 0 : at_boot / 1'000'000'000;
}

void tick_register(void (*handler)()) {
  for (auto*& slot : tick_handlers) {
    if (slot) continue;
    slot = handler;
    return;
  }
  panic("too many tick handlers");
}
