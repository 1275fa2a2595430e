// Timers: they call a function at a given time. The resolution is one tick.
#pragma once

#include "lib/list.h"
#include "lib/units.h"

// The callback runs in interrupt context, on the CPU that armed the timer.
struct Timer {
  void (*callback)(void* argument);
  void* argument;
  Nanoseconds deadline;
  CpuId cpu;
  ListNode link;
};
// Arms the timer, or arms it again, for `deadline`. Any context.
void timer_arm(Timer& timer, Nanoseconds deadline);
// Disarms the timer. On return the callback is not running and will not run. Must not be called by
// the callback itself.
void timer_cancel(Timer& timer);
