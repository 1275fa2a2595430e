// Patches the kernel's code while all CPUs run it.
//
// A byte changes at once, but CPUs fetch and decode ahead, and must never see an instruction of
// several bytes half changed. The sequence is that of Intel SDM volume 3, section 9.1.3, for
// cross-modifying code: first byte to a breakpoint; a round in which every CPU executes a
// serialising instruction; the other bytes; a round; the first byte; a round. A CPU that meets the
// breakpoint meanwhile continues as if it were the nop (probe_breakpoint). A round serves any
// number of changes.
//
// An emulator that translates code may miss a byte that is written during translation, and go on
// with the old one (QEMU 7.2 does, with several CPUs). Such a translation is finished after a
// round, so bytes that shall stay are written once more then.
//
// No CPU may be in the middle of patched bytes: a function's entry is one instruction of five bytes
// before and after.
//
// No mapping of the code is writable: text_write writes bytes through a temporary mapping of the
// CPU.
#pragma once

#include <cstdint>

inline constexpr uint8_t kTextBreakpoint = 0xcc, kTextCall = 0xe8, kTextReturn = 0xc3,
                         kTextNop = 0x0f;
inline constexpr uint64_t kTextEntryBytes = 5;  // of the nop or call at a function's beginning

inline uint8_t text_byte(uint64_t address) {
  return *reinterpret_cast<const volatile uint8_t*>(address);
}
void text_write_byte(uint64_t address, uint8_t byte);
// Writes the last four bytes of the call at `address`, or, for nullptr, of the nop.
void text_write_tail(uint64_t address, void (*target)());
// On return every CPU has executed a serialising instruction, and interrupts-off regions that were
// running have ended. Context as on_each_cpu.
void text_sync();
// Checksum of all code as it is now. Any context.
uint64_t text_checksum();
