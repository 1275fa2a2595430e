// Guards against recursive probes.
//
// While a CPU runs a probe's consumer, no other probe may be hit on that CPU: neither by the
// consumer nor by an NMI that interrupts it. Cpu::probes_off is the guard. probe_entry.S tests it
// with interrupts off before it calls any function, so nearly every function can be probed,
// including the tracer's.
#pragma once

#ifndef STELE_HOST
#include <cstddef>

#include "arch/x86_64/interrupts.h"
#include "core/cpu.h"
#endif

// For the few functions that cannot be probed: those between a probe's entry and the guard
// (trap.cc), and the hooks of allocations (hooks.cc), which end in jumps. The compiler then emits
// no nop, which a probe would replace.
#define NOT_PROBED [[gnu::no_instrument_function]]

#ifndef STELE_HOST
// Keeps probes off this CPU for the life of a scope in which interrupts are off anyway. A
// suppressed hit is counted for its consumers (ProbeConsumer::kept_out). For callers of
// ProbeConsumer::hit(), and for code that a hit must not interrupt: code that takes a lock that
// hit() takes, too (this guard first), or changes per-CPU data that hit() uses.
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
