// Stops all CPUs.
#pragma once

#include <cstdint>

namespace reach {

// Calls work(argument) with interrupts off while all other CPUs wait with theirs off, each in an
// interprocessor interrupt. So each was stopped where its interrupts were on, and no CPU holds a
// spinlock. The caller has interrupts on and holds no spinlock.
//
// Interrupts are off as long as `work` runs. This is the only interrupts-off region of the kernel
// without a bound: it grows with the memory in use. `#mem/irqoff` lists it (core/irq_off.h).
void with_world_stopped(void (*work)(void*), void* argument);
// For `work`: the stack pointer of CPU `cpu`. The stack above it, up to the top of the kernel stack
// that the CPU was on, is in use and holds all registers of the interrupted code: in the
// interrupt's frame, or, for the caller, saved below it.
uint64_t stopped_stack(unsigned cpu);

}  // namespace reach
