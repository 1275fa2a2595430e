// All CPUs stand still.
#pragma once

#include <cstdint>

namespace reach {

// Calls work(argument) with interrupts off while all other CPUs wait with theirs off, each in an
// interprocessor interrupt: so each was stopped where its interrupts were on, and no CPU holds a
// spinlock. The caller has interrupts on and holds no spinlock.
//
// It lasts as long as `work`: the one place in the kernel that keeps interrupts off for a time that
// grows with what there is. `#mem/irqoff` names it (core/irq_off.h).
void with_world_stopped(void (*work)(void*), void* argument);
// For `work`: where the stack of CPU `cpu` begins. What is above it, up to the top of the kernel
// stack that the CPU was on, is in use, with all registers of what was stopped in it: in the
// interrupt's frame, or, for the caller, saved below.
uint64_t stopped_stack(unsigned cpu);

}  // namespace reach
