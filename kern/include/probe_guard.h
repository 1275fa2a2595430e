// What probes are kept away from.
//
// A CPU that is telling a consumer of a probe must not be told by other probes of what the consumer does, or of an NMI in
// between: Cpu::probes_off says so. probe_entry.S looks at it with interrupts off and before it calls any function, so
// nearly every function can be probed, those of the tracer too.
#pragma once

#include <cstddef>

#include "arch/x86_64/interrupts.h"
#include "cpu.h"

// For the few functions that cannot be probed: those between a probe's entry and the guard, and where nobody may be told
// yet (trap.cc). The compiler leaves out the nop that a probe takes the place of.
#define NOT_PROBED __attribute__((no_instrument_function))

// Keeps probes out on this CPU for the life of a scope; interrupts are off. Each hit that would have been is counted to its
// consumers (ProbeConsumer::kept_out). For who calls hit(), and for who holds a lock that hit() takes.
class ProbesOff {
 public:
  NOT_PROBED ProbesOff() { asm volatile("incl %%gs:%c0" ::"i"(offsetof(Cpu, probes_off)) : "memory", "cc"); }
  NOT_PROBED ~ProbesOff() { asm volatile("decl %%gs:%c0" ::"i"(offsetof(Cpu, probes_off)) : "memory", "cc"); }
  ProbesOff(const ProbesOff&) = delete;
  ProbesOff& operator=(const ProbesOff&) = delete;

 private:
  InterruptsOff off_;  // first in, last out
};
