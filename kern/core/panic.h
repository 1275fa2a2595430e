// Interface of panics for traps, reports and other CPUs. panic() itself is in log.h.
#pragma once

#include <cstdint>

struct TrapFrame;

// Panics for an exception: shows the interrupted registers and stack.
[[noreturn, gnu::cold]] void panic_from_trap(const TrapFrame& frame, const char* pattern, ...)
    __attribute__((format(printf, 2, 3)));
// Registers a function that prints a report. A panic, and an NMI (nmi.h), call the function after
// the backtraces, with all other CPUs stopped and interrupts off. The function allocates nothing,
// and takes locks only with try_lock(). At most four functions.
void panic_register_report(void (*report)());
// Calls the registered reports. All other CPUs are stopped.
void panic_call_reports();
// True if a panic is being shown or the machine is stopping: the log then waits for no lock.
bool panicking();
// Halts this CPU if another one panics. Any context.
void panic_give_way();
