// Stops all CPUs.
#pragma once

#include <cstdint>

#include "lib/units.h"

namespace reach {

// Calls work(argument) with interrupts off, while all other CPUs wait in an interprocessor
// interrupt. So each CPU was stopped in code that has interrupts on, and no CPU holds a spinlock.
// The caller has interrupts on and holds no spinlock.
//
// Interrupts are off as long as `work` runs. This is the only interrupts-off region of the kernel
// without a bound: it grows with the memory in use. `#mem/irqoff` lists it (core/irq_off.h).
void with_world_stopped(void (*work)(void*), void* argument);
// For `work`: the stack pointer of CPU `cpu`. The CPU's kernel stack is in use from there to the
// top. On a CPU that was interrupted, this part holds all registers, in the interrupt's frame. On
// the CPU that runs `work`, it holds the callee-saved registers, in the frame of the function that
// calls `work`.
uint64_t stopped_stack(CpuId cpu);

}  // namespace reach
