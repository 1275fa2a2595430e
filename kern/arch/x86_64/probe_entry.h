// From a probed function to those who want to know (probe_entry.S, src/probe/kernel_probes.cc).
#pragma once

#include <cstdint>

#include "arch/x86_64/probe_registers.h"

struct TrapFrame;

// What probe_entry has on the stack, lowest address first. It begins with two frames, of the
// function, which has not made its own yet, and of its caller; so a walk by frame pointers may
// begin at it.
struct ProbeEntryFrame {
  uint64_t caller_frame;  // address of the next pair
  uint64_t after_nop;     // in the function
  uint64_t frame_pointer, return_address;
  ProbeRegisters registers;
  uint64_t flags;
  uint64_t after_call;  // the same as after_nop, which probe_entry returns to
                        // and above it the function's return address
};

extern "C" {
// What the first instruction of a probed function calls.
void probe_entry();

// What it calls in its turn, with interrupts off: with the guard on, which was off; or when that
// was on already.
void probe_called(const ProbeEntryFrame* frame);
void probe_kept_out(uint64_t after_nop);
// A breakpoint instruction in the kernel. True if it is a probe's; then the frame is where to go
// on. Interrupts off, any context; all that it calls before the guard is on, or if that was on, is
// NOT_PROBED.
bool probe_breakpoint(TrapFrame* frame);
}
