// Other CPUs: starting them and calling functions on them.
#pragma once

#include <cstdint>

// Calls function(argument) on every online CPU, in an interprocessor interrupt (on this one
// directly, interrupts off), and returns when all have returned. The caller has interrupts on and
// holds no spinlock. Calls from several CPUs at once are safe.
void on_each_cpu(void (*function)(void*), void* argument);
// The same for the CPUs whose bit is set in `cpus`; with only this CPU's bit, no other is
// disturbed.
void call_on_cpus(uint64_t cpus, void (*function)(void*), void* argument);
// Makes CPU `id` check its need_resched soon. Any context.
void cpu_kick(unsigned id);
// Stops all other CPUs forever (panic).
void stop_other_cpus();
// Starts the other CPUs; each goes to sched_start_cpu. Once, with interrupts off, after the memory
// core and sched_init.
void smp_start();
