// More about the end than log.h says.
#pragma once

#include <cstdint>

struct TrapFrame;

// As panic, for an exception: shows the registers and the stack of what was interrupted.
[[noreturn, gnu::cold]] void panic_from_trap(const TrapFrame& frame, const char* pattern, ...)
    __attribute__((format(printf, 2, 3)));
// `report` is called by a panic, and for an NMI (nmi.h), after the backtraces, with all other CPUs
// stopped and interrupts off. It allocates nothing and only tries locks. At most four.
void panic_register_report(void (*report)());
// Calls them. All other CPUs stand still.
void panic_call_reports();
// A panic is being shown, or the machine has been asked to stop: locks of the log are not waited
// for.
bool panicking();
// Halts this CPU if another one panics. Any context.
void panic_give_way();
