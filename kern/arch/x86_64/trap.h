// Traps: exceptions, interrupts, system calls, and returns to user mode.
#pragma once

#include <cstdint>

#include "lib/result.h"

// The frame that entry.S builds on the kernel stack, lowest address first. Exceptions, interrupts
// and system calls all use this layout, so that fork, exec and signals handle only one layout.
struct TrapFrame {
  uint64_t r15, r14, r13, r12, rbp, rbx, r11, r10, r9, r8, rax, rcx, rdx, rsi, rdi;
  uint64_t vector;
  uint64_t error_code;
  uint64_t rip, cs, rflags, rsp, ss;

  bool from_user() const { return (cs & 3) == 3; }
};

inline constexpr uint8_t kVectorBreakpoint = 3;
inline constexpr uint8_t kVectorPageFault = 14;
inline constexpr uint64_t kVectorSystemCall = 0x100;  // occurs in TrapFrame::vector only
inline constexpr uint8_t kVectorIrqBase = 32;  // ISA interrupt n has the vector kVectorIrqBase + n
inline constexpr uint8_t kVectorDebugSelf = 0xf0;  // raised by software only: interrupt_raise_self

using InterruptHandler = void (*)(TrapFrame& frame, void* argument);

// Routes ISA interrupt `irq` (0..15) to CPU 0, and registers a handler that is called with
// interrupts off, in interrupt context. `name` appears in traces and in reports of run-time checks;
// it must stay valid. ENODEV if no I/O APIC has the line; EBUSY if the line has two handlers
// already (two serial ports share line 3, and two others share line 4).
Result<void> interrupt_register(unsigned irq, const char* name, InterruptHandler handler,
                                void* argument);
// Registers a handler for a vector that is not an ISA interrupt's: for example, the vector of the
// local APIC's timer, of an interprocessor interrupt or of a device with MSI-X. The handler is
// called with interrupts off, in interrupt context. EINVAL for an exception's vector and for
// kVectorSpurious; EBUSY if the vector has two handlers already.
Result<void> interrupt_register_vector(uint8_t vector, const char* name, InterruptHandler handler,
                                       void* argument);
// The name given at registration ("timer", "uart0", …) or "interrupt".
const char* interrupt_name(uint8_t vector);
// Sends `vector` to this CPU through the CPU's local APIC. The interrupt comes as soon as
// interrupts are on.
void interrupt_raise_self(uint8_t vector);

// Handlers of higher layers. All but `breakpoint` are called with interrupts on. All run on the
// kernel stack of the task that trapped.
struct TrapHandlers {
  // A system call; the handler puts its result into frame.rax.
  void (*system_call)(TrapFrame& frame);
  // A page fault at `address` in user mode, or by the kernel in a user-memory access
  // (user_memory.h). Returns true if the fault was resolved.
  bool (*page_fault)(TrapFrame& frame, uint64_t address, bool write, bool execute);
  // A breakpoint instruction in user mode. Called with interrupts off; may turn interrupts on for a
  // while. Returns false if trap.cc shall handle the breakpoint as any other exception. A handler
  // that returns true has changed at most rip and rsp of the frame.
  bool (*breakpoint)(TrapFrame& frame);
  // Any other exception from user mode, or a page fault that was not resolved: becomes a signal.
  void (*user_exception)(TrapFrame& frame, uint8_t vector, uint64_t address);
  // Called before each return to user mode: delivers signals. May not return.
  void (*before_user)(TrapFrame& frame);
};
void trap_register(const TrapHandlers& handlers);

// Continues in user mode with the registers of `frame`; discards the contents of the current task's
// kernel stack.
[[noreturn]] void enter_user(const TrapFrame& frame);
// Returns a frame that starts a program: user segments, interrupts on, everything else zero.
TrapFrame user_frame(uint64_t rip, uint64_t rsp);
