// Other CPUs: starting them and calling functions on them.
#pragma once

#include <cstdint>

#include "lib/units.h"

// Calls function(argument) on every online CPU, and returns when all calls have returned. Other
// CPUs make the call in an interprocessor interrupt, this CPU directly, with interrupts off. The
// caller has interrupts on and holds no spinlock. Calls from several CPUs at once are safe.
void on_each_cpu(void (*function)(void*), void* argument);
// Calls function(argument) as on_each_cpu() does, but only on the CPUs whose bit is set in `cpus`.
// No other CPU is interrupted.
void call_on_cpus(uint64_t cpus, void (*function)(void*), void* argument);
// Makes CPU `id` check its need_resched soon. Any context.
void cpu_kick(CpuId id);
// Stops all other CPUs with an NMI: in a panic forever, otherwise until the report of nmi.h ends.
void stop_other_cpus();
// Starts the other CPUs; each goes to sched_start_cpu. Once, with interrupts off, after the memory
// core and sched_init.
void smp_start();
