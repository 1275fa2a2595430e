// Guards against recursive probes.
//
// While a CPU runs a probe's consumer, no other probe may be hit on that CPU: neither by the
// consumer nor by an NMI that interrupts the consumer. Cpu::probes_off is the guard. Assembly code
// (probe_entry.S) tests the guard with interrupts off, before the first call of a function. So
// nearly every function can be probed, including the tracer's functions.
#pragma once

#ifndef STELE_HOST
#include <cstddef>

#include "arch/x86_64/interrupts.h"
#include "core/cpu.h"
#endif

// For the few functions that cannot be probed: functions that run before the guard is tested, such
// as those in trap.cc, and the tracer's hooks of allocations, which end in jumps (hooks.cc). A
// probe replaces a nop at the start of a function; with this attribute the compiler emits no nop.
#define NOT_PROBED [[gnu::no_instrument_function]]

#ifndef STELE_HOST
// Keeps probes off this CPU for the life of a scope in which interrupts are off anyway. A
// suppressed hit is counted for its consumers (ProbeConsumer::kept_out). For callers of
// ProbeConsumer::hit(), and for code that a hit must not interrupt. Such code uses a lock or
// per-CPU data that hit() uses, too; it makes this guard before it takes the lock.
class ProbesOffHere {
 public:
  NOT_PROBED ProbesOffHere() {
    asm volatile("incl %%gs:%c0" ::"i"(offsetof(Cpu, probes_off)) : "memory", "cc");
  }
  NOT_PROBED ~ProbesOffHere() {
    asm volatile("decl %%gs:%c0" ::"i"(offsetof(Cpu, probes_off)) : "memory", "cc");
  }
  ProbesOffHere(const ProbesOffHere&) = delete;
  ProbesOffHere& operator=(const ProbesOffHere&) = delete;
};

// Turns interrupts off and keeps probes off this CPU for the life of a scope.
class ProbesOff {
 public:
  NOT_PROBED IRQ_OFF_INLINE ProbesOff() {}
  NOT_PROBED IRQ_OFF_INLINE ~ProbesOff() {}
  ProbesOff(const ProbesOff&) = delete;
  ProbesOff& operator=(const ProbesOff&) = delete;

 private:
  InterruptsOff interrupts_;  // constructed first, destroyed last
  ProbesOffHere probes_;
};
#else
// There are no probes on the host.
struct ProbesOffHere {
  ProbesOffHere() {}
};
struct ProbesOff {
  ProbesOff() {}
};
#endif
