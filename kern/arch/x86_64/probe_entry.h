// The way from a probed function to its consumers (probe_entry.S, src/probe/kernel_probes.cc).
#pragma once

#include <cstdint>

#include "arch/x86_64/probe_registers.h"

struct TrapFrame;

// The stack of probe_entry, lowest address first. It begins with two frames: of the function, which
// has not made its own yet, and of its caller. So a walk by frame pointers may begin at it.
struct ProbeEntryFrame {
  uint64_t caller_frame;  // address of the next pair
  uint64_t after_nop;     // in the function
  uint64_t frame_pointer, return_address;
  ProbeRegisters registers;
  uint64_t flags;
  uint64_t after_call;  // equal to after_nop; probe_entry returns to it
  // Above it lies the function's return address.
};

extern "C" {
// Called by the first instruction of a probed function.
void probe_entry();

// Called by probe_entry, interrupts off: probe_called if the guard was off, with the guard on;
// probe_kept_out if the guard was on already.
void probe_called(const ProbeEntryFrame* frame);
void probe_kept_out(uint64_t after_nop);
// Handles a breakpoint instruction in the kernel. True if it belongs to a probe; the frame then
// says where to continue. Interrupts off, any context. Functions that it calls before it turns the
// guard on, or if the guard was on, are NOT_PROBED.
bool probe_breakpoint(TrapFrame* frame);
}
