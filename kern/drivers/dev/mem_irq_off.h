// #mem/irqoff: the longest stretches with interrupts off (core/irq_off.h).
#pragma once

#include <string_view>

#include "ns/device.h"

#ifdef CONFIG_IRQ_OFF_TRACE
// Prints all recorded stretches, the longest first. ENOMEM. May sleep.
Result<void> mem_print_irq_off(Text& text);
// Executes the command `reset`, which clears all recorded stretches. EINVAL for anything else. May
// sleep.
Result<void> mem_irq_off_command(void*, std::string_view text);
#endif
