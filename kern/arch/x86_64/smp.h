// Other CPUs: starting them and calling functions on them.
#pragma once

#include <cstdint>

#include "lib/units.h"

// Calls function(argument) on every online CPU, and returns when all calls have returned. Other
// CPUs make the call in an interprocessor interrupt; this CPU makes the call directly. Interrupts
// are off during each call. The caller has interrupts on and holds no spinlock. Several CPUs may
// call on_each_cpu() at once.
void on_each_cpu(void (*function)(void*), void* argument);
// Calls function(argument) as on_each_cpu() does, but only on the CPUs whose bit is set in `cpus`.
// CPUs whose bit is clear are not interrupted.
void call_on_cpus(uint64_t cpus, void (*function)(void*), void* argument);
// Makes CPU `id` check its need_resched soon. Any context.
void cpu_kick(CpuId id);
// Stops all other CPUs with an NMI. In a panic they halt forever; otherwise each CPU calls
// nmi_report() and continues when nmi_report() returns.
void stop_other_cpus();
// Starts the other CPUs; each continues in sched_start_cpu. Called once, with interrupts off, after
// memory_init and sched_init.
void smp_start();
