// The path from a probed function to its consumers (probe_entry.S, probe/kernel_probes.cc).
#pragma once

#include <cstdint>

#include "arch/x86_64/probe_registers.h"

struct TrapFrame;

// The stack of probe_entry, lowest address first. The stack begins with two pairs of frame pointer
// and return address: one for the probed function, which has not made its frame yet, and one for
// that function's caller. So a walk by frame pointers may begin here.
struct ProbeEntryFrame {
  uint64_t caller_frame;  // address of the caller's pair, `frame_pointer` below
  uint64_t after_nop;     // address in the function, after its nop
  uint64_t frame_pointer, return_address;
  ProbeRegisters registers;
  uint64_t flags;
  uint64_t after_call;  // equal to after_nop; probe_entry returns to it
  // Above this structure lies the function's return address.
};

extern "C" {
// Called by the first instruction of a probed function.
void probe_entry();

// probe_entry calls one of these two functions, with interrupts off. If the guard of this CPU
// (Cpu::probes_off, probe_guard.h) is 0, probe_entry sets the guard to 1 and calls probe_called.
// Otherwise this CPU already handles a probe, and probe_entry calls probe_kept_out.
void probe_called(const ProbeEntryFrame* frame);
void probe_kept_out(uint64_t after_nop);
// Handles a breakpoint instruction in the kernel. Returns true if the breakpoint belongs to a
// probe; the frame then says where to continue. Interrupts off, any context. Functions that
// probe_breakpoint calls while the guard is not set are NOT_PROBED.
bool probe_breakpoint(TrapFrame* frame);
}
