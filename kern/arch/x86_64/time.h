// Time: monotonic from the time stamp counter, wall time from the real-time clock at boot, and a
// periodic tick on each CPU.
#pragma once

#include <atomic>

#include "lib/units.h"

inline constexpr unsigned kTickHz = 250;

inline uint64_t tsc() {
  uint32_t low, high;
  asm volatile("rdtsc" : "=a"(low), "=d"(high));
  return uint64_t{high} << 32 | low;
}

// Since boot. Any context; does not go backwards between CPUs by more than a few microseconds.
Nanoseconds monotonic_now();
// Milliseconds since boot, from a word that the tick updates: one load.
extern std::atomic<uint64_t> coarse_time;
inline uint64_t coarse_milliseconds() {
  return coarse_time.load(std::memory_order_relaxed);
}
// Since 1970, by the clock that wall_set has set: the one kind of Nanoseconds that is not since
// boot.
Nanoseconds wall_now();
// The clock shows `now` from this moment on. Any context.
void wall_set(Nanoseconds now);
// Seconds since 1970 at boot, by the clock as it is set.
uint64_t boot_wall_seconds();
// Called on each CPU in each tick, in interrupt context.
void tick_register(void (*handler)());

// Measures the counters, reads the real-time clock. Once, on the boot CPU, after the interrupt
// controllers.
void time_init();
// Starts this CPU's tick.
void time_start_tick();
