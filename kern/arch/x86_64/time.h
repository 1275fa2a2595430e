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

// Like tsc(), but executed in program order with loads (Intel SDM volume 2, RDTSC).
inline uint64_t tsc_in_order() {
  asm volatile("lfence" ::: "memory");
  const uint64_t now = tsc();
  asm volatile("lfence" ::: "memory");
  return now;
}

// Time since boot. Any context; may go backwards between CPUs by a few microseconds.
Nanoseconds monotonic_now();
// Milliseconds since boot. The boot CPU's tick updates this word, so a read costs only one load.
extern std::atomic<uint64_t> coarse_time;
inline Milliseconds coarse_milliseconds() {
  return {coarse_time.load(std::memory_order_relaxed)};
}
// Time since 1970, by the clock that wall_set sets. Elsewhere a value of type Nanoseconds is a time
// since boot, or a duration.
Nanoseconds wall_now();
// Sets the clock of wall_now() to `now`. Any context.
void wall_set(Nanoseconds now);
// Seconds from 1970 to boot, by the current setting of wall_now().
uint64_t boot_wall_seconds();
// Registers a handler that each CPU calls in each tick, in interrupt context.
void tick_register(void (*handler)());

// The rate of the time stamp counter, in hertz.
uint64_t tsc_hertz();
// The time in which the time stamp counter advances by `count`.
Nanoseconds tsc_duration(uint64_t count);
// The number by which the counter advances between two ticks.
uint64_t tsc_per_tick();
// Tells that the time stamp counters of the CPUs differ. From now on monotonic_now() never goes
// backwards, but calls on all CPUs share a word of memory. Called while CPUs start.
void time_counters_differ();

// Measures the rates of the time stamp counter and of the local APIC's timer, and reads the
// real-time clock. Called once, on the boot CPU, after interrupt_controllers_init().
void time_init();
// Starts this CPU's tick.
void time_start_tick();
