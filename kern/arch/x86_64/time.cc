// Time. The rate of the time stamp counter comes from CPUID, or is measured once against a clock of
// known rate (reference_clocks_impl.h). The rate of the local APIC's timer, which gives each CPU
// its periodic tick, is measured against the time stamp counter meanwhile. Under QEMU -icount a
// tick of the counter is one instruction.
//
// Each CPU has a time stamp counter. When a CPU starts, it compares its counter with the boot CPU's
// (tsc_sync_impl.h). If the counters differ and cannot be set, monotonic_now() returns no time
// earlier than one that it has returned before.
#include "arch/x86_64/time.h"

#include <algorithm>
#include <atomic>

#include "arch/x86_64/clock_rate_impl.h"
#include "arch/x86_64/interrupt_controller.h"
#include "arch/x86_64/io.h"
#include "arch/x86_64/real_time_clock_impl.h"
#include "arch/x86_64/reference_clocks_impl.h"
#include "arch/x86_64/trap.h"
#include "core/cpu.h"
#include "core/log.h"
#include "core/probe_guard.h"

constinit std::atomic<uint64_t> coarse_time{0};

namespace {

constexpr uint64_t kGuessedHz = 1'000'000'000;  // of a counter that nothing can measure
constexpr unsigned kTimerTries = 16;            // readings of the local APIC's timer
constexpr unsigned kMaxTickHandlers = 4;

constinit uint64_t start_tsc = 0;
constinit uint64_t nanoseconds_per_tick = 0;  // 32.32 fixed point; 0 until measured
constinit uint64_t tsc_rate = 0;              // hertz
constinit uint64_t tick_length = 0;           // tsc_per_tick()
constinit uint32_t timer_count = 0;           // ticks of the local APIC's timer between two ticks
constinit std::atomic<bool> counters_differ{false};
constinit std::atomic<uint64_t> latest{0};        // time in nanoseconds; used if counters differ
constinit std::atomic<uint64_t> wall_at_boot{0};  // nanoseconds from 1970 to boot, modulo 2^64
void (*tick_handlers[kMaxTickHandlers])() = {};

void run_tick(Cpu& cpu) {
  if (cpu.id == kBootCpu)
    coarse_time.store(monotonic_now().value / 1'000'000, std::memory_order_relaxed);
  cpu.stamp = cpu_stamp(cpu.id, coarse_milliseconds());
  for (auto* handler : tick_handlers) {
    if (handler) handler();
  }
}

// When all functions are probed, and CPUs wait for each other in the probes, a tick may take longer
// than the timer's period. Then the CPU would do nothing else. So after a tick the interrupted code
// runs for kRest times as long as the tick took, which is enough for a switch of tasks, too; the
// timer's interrupts until then do nothing. Such an interrupt must not hit a probe: NOT_PROBED.
constexpr unsigned kRest = 3;
constexpr unsigned kMaxRest = 25;  // tick_lengths: 100 ms

NOT_PROBED void on_timer(TrapFrame&, void*) {
  Cpu& cpu = this_cpu();
  const uint64_t begin = tsc();
  if (begin < cpu.next_tick) return;
  run_tick(cpu);
  const uint64_t end = tsc();
  cpu.next_tick = end + std::min(kRest * (end - begin), kMaxRest * tick_length);
}

// Returns the later one of `now` and the latest result so far.
uint64_t not_before_latest(uint64_t now) {
  uint64_t before = latest.load(std::memory_order_relaxed);
  while (before < now && !latest.compare_exchange_weak(before, now, std::memory_order_relaxed))
    continue;
  return before < now ? now : before;
}

CpuidLeaf read_cpuid(uint32_t leaf) {
  const Cpuid read = cpuid(leaf);
  return {read.eax, read.ebx, read.ecx, read.edx};
}

// The timer counts down.
uint64_t read_timer() {
  return UINT32_MAX - local_apic_timer_left();
}

// Returns when the time stamp counter has gone on for 1/kShortestMeasurement s.
void wait_shortest(uint64_t hertz) {
  const uint64_t end = tsc() + hertz / kShortestMeasurement;
  while (tsc() < end) cpu_relax();
}

// CPUID leaf 0x16 has the processor's base frequency in MHz, which is near the counter's rate.
uint64_t guess_rate() {
  constexpr uint32_t kFrequencies = 0x16;
  const uint64_t megahertz = cpuid(0).eax >= kFrequencies ? cpuid(kFrequencies).eax & 0xffff : 0;
  const uint64_t guess = megahertz != 0 ? megahertz * 1'000'000 : kGuessedHz;
  klog("time: no clock measures the time stamp counter; assuming %lu Hz", guess);
  return guess;
}

uint64_t measured_rate() {
  for (unsigned i = 0; i < kReferenceClocks; i++) {
    const std::optional<ReferenceClock> clock = reference_clock(i);
    if (!clock) continue;
    if (const std::optional<ClockRate> rate = measure_rate(tsc_in_order, *clock))
      return rate->hertz;
  }
  if (const uint64_t rate = rate_from_real_time_clock(tsc_in_order)) return rate;
  return guess_rate();
}

void calibrate() {
  local_apic_timer_run();
  const ClockSample first = sample_clock(tsc_in_order, read_timer, kTimerTries);
  start_tsc = first.ticks;
  tsc_rate = rate_from_cpuid(read_cpuid);
  if (tsc_rate != 0) {
    wait_shortest(tsc_rate);
  } else {
    tsc_rate = measured_rate();
  }
  const ClockSample last = sample_clock(tsc_in_order, read_timer, kTimerTries);
  const uint64_t timer_rate = rate_from_samples(first, last, UINT32_MAX, tsc_rate);
  tick_length = tsc_rate / kTickHz;
  timer_count = static_cast<uint32_t>(timer_rate / kTickHz);
  nanoseconds_per_tick = (uint64_t{1'000'000'000} << 32) / tsc_rate;
}

}  // namespace

void time_init() {
  calibrate();
  wall_at_boot = real_time_clock_read() * 1'000'000'000;
  if (!interrupt_register_vector(kVectorTimer, "timer", on_timer, nullptr))
    panic("the timer's vector is taken");
}

void time_start_tick() {
  local_apic_timer_periodic(timer_count);
}

Nanoseconds monotonic_now() {
  const unsigned __int128 ticks = tsc() - start_tsc;
  const uint64_t now = static_cast<uint64_t>(ticks * nanoseconds_per_tick >> 32);
  if (counters_differ.load(std::memory_order_relaxed)) [[unlikely]]
    return {not_before_latest(now)};
  return {now};
}

void time_counters_differ() {
  counters_differ.store(true, std::memory_order_relaxed);
}

uint64_t tsc_hertz() {
  return tsc_rate;
}

Nanoseconds tsc_duration(uint64_t count) {
  const unsigned __int128 counted = count;
  return {static_cast<uint64_t>(counted * nanoseconds_per_tick >> 32)};
}

uint64_t tsc_per_tick() {
  return tick_length;
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
