// What probes are kept away from.
//
// A CPU that is telling a consumer of a probe must not be told by other probes of what the consumer
// does, or of an NMI in between: Cpu::probes_off says so. probe_entry.S looks at it with interrupts
// off and before it calls any function, so nearly every function can be probed, those of the tracer
// too.
#pragma once

#ifndef STELE_HOST
#include <cstddef>

#include "arch/x86_64/interrupts.h"
#include "core/cpu.h"
#endif

// For the few functions that cannot be probed: those between a probe's entry and the guard, where
// nobody may be told yet (trap.cc), and the hooks of allocations (hooks.cc), which are left by
// jumps. The compiler leaves out the nop that a probe takes the place of.
#define NOT_PROBED [[gnu::no_instrument_function]]

#ifndef STELE_HOST
// Keeps probes out on this CPU for the life of a scope in which interrupts are off anyway. Each hit
// that would have been is counted to its consumers (ProbeConsumer::kept_out). For who calls hit();
// and for who does what hit() may not find half done: holds a lock that it takes (then before the
// lock), or changes what is this CPU's.
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

// The same, and turns interrupts off.
class ProbesOff {
 public:
  NOT_PROBED IRQ_OFF_INLINE ProbesOff() {}
  NOT_PROBED IRQ_OFF_INLINE ~ProbesOff() {}
  ProbesOff(const ProbesOff&) = delete;
  ProbesOff& operator=(const ProbesOff&) = delete;

 private:
  InterruptsOff interrupts_;  // first in, last out
  ProbesOffHere probes_;
};
#else
// Nobody probes there.
struct ProbesOffHere {
  ProbesOffHere() {}
};
struct ProbesOff {
  ProbesOff() {}
};
#endif
