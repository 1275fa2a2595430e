// Patches the kernel's code while all CPUs run it.
//
// The write of one byte is atomic, but CPUs fetch and decode ahead, and must never see an
// instruction of several bytes half changed. The sequence of writes is that of Intel SDM volume 3,
// section 9.1.3, for cross-modifying code. It has three writes: a breakpoint to the first byte,
// then the other bytes, then the final first byte. After each write comes a round, in which every
// CPU executes a serialising instruction. A CPU that meets the breakpoint meanwhile continues as if
// the breakpoint were the nop (probe_breakpoint). A round serves any number of changes.
//
// An emulator that translates code may miss a byte that is written during the translation, and
// continue with the old byte (QEMU 7.2 does, with several CPUs). A round ends only when all
// translations that were under way at its start are finished. So the final first bytes are written
// a second time, after the last round (probe/kernel_probes.cc).
//
// No CPU's program counter may point into the middle of the patched bytes. None does, because the
// five bytes form one instruction before and after the change: the nop at a function's entry, or
// the call that replaces the nop.
//
// No permanent mapping of the code is writable: text_write writes bytes through a temporary mapping
// that belongs to the CPU.
#pragma once

#include <cstdint>

inline constexpr uint8_t kTextBreakpoint = 0xcc, kTextCall = 0xe8, kTextReturn = 0xc3,
                         kTextNop = 0x0f;
inline constexpr uint64_t kTextEntryBytes =
    5;  // bytes of the nop or call at a function's beginning

inline uint8_t text_byte(uint64_t address) {
  return *reinterpret_cast<const volatile uint8_t*>(address);
}
void text_write_byte(uint64_t address, uint8_t byte);
// Writes the last four bytes of the instruction at `address`. The bytes are those of a call of
// `target`, or those of the nop if `target` is nullptr.
void text_write_tail(uint64_t address, void (*target)());
// On return every CPU has executed a serialising instruction, and interrupts-off regions that were
// running have ended. Called in the contexts that on_each_cpu() allows.
void text_sync();
// Checksum of all code in its present state. Any context.
uint64_t text_checksum();
