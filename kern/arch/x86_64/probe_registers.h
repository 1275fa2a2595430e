// The registers of a probed call.
#pragma once

#include <cstdint>

// The caller-saved registers, as the probes' entries and the trap entry (TrapFrame) save them,
// lowest address first.
struct ProbeRegisters {
  uint64_t r11, r10, r9, r8, rax, rcx, rdx, rsi, rdi;

  // Returns argument number `index`, 0 to 5, of a call with integer arguments.
  uint64_t argument(unsigned index) const {
    const uint64_t in_order[] = {rdi, rsi, rdx, rcx, r8, r9};
    return in_order[index];
  }
  uint64_t result() const { return rax; }
};
