// Timers: they call a function at a given time. The resolution is one tick.
#pragma once

#include <cstdint>

#include "lib/units.h"

struct Timer;

// The place of a timer in the heap of its CPU (timer_heap_impl.h).
struct TimerNode {
  Timer *left = nullptr, *right = nullptr, *parent = nullptr;
  uint32_t rank = 0;  // 0: the timer is not armed
  uint64_t sequence = 0;
};

// The most callbacks that a CPU runs in one tick.
inline constexpr unsigned kMaxTimersPerTick = 256;

// The callback runs in interrupt context, on the CPU that armed the timer.
struct Timer {
  void (*callback)(void* argument);
  void* argument;
  Nanoseconds deadline;
  CpuId cpu;
  TimerNode node;

  bool is_armed() const { return node.rank != 0; }
};
// Arms the timer, or arms it again, for `deadline`. Any context.
void timer_arm(Timer& timer, Nanoseconds deadline);
// Disarms the timer. On return the callback is not running and will not run. Must not be called by
// the callback itself.
void timer_cancel(Timer& timer);
