// Changing the kernel's code while all CPUs run it.
//
// A byte is changed at once, but CPUs fetch and decode ahead, and an instruction of several bytes
// must never be seen half changed. So, as Intel SDM volume 3, section 9.1.3 has it for code that
// one CPU changes and others run: first byte to a breakpoint; a round in which every CPU executes a
// serialising instruction; the other bytes; a round; the first byte; a round. Who meets the
// breakpoint meanwhile goes on as if it were the nop (probe_breakpoint). A round serves as many
// changes as wanted.
//
// An emulator that translates code may miss a byte that is written while it translates, and go on
// with what it has read (QEMU 7.2 does, with several CPUs). What it has begun is over after a
// round, so what is to stay is written once more then.
//
// Nobody may be in the middle of what is changed: a function's entry is one instruction before and
// after, of five bytes.
//
// No mapping of the code can be written to: bytes are written through one that a CPU has for that
// moment (text_write).
#pragma once

#include <cstdint>

inline constexpr uint8_t kTextBreakpoint = 0xcc, kTextCall = 0xe8, kTextReturn = 0xc3,
                         kTextNop = 0x0f;
inline constexpr uint64_t kTextEntryBytes = 5;  // of the nop or call at a function's beginning

inline uint8_t text_byte(uint64_t address) {
  return *reinterpret_cast<const volatile uint8_t*>(address);
}
void text_write_byte(uint64_t address, uint8_t byte);
// The last four bytes of the call at `address`, or, for nullptr, of the nop.
void text_write_tail(uint64_t address, void (*target)());
// Every CPU has executed a serialising instruction, and what ran with interrupts off is over, when
// it returns. As on_each_cpu.
void text_sync();
// Of all code as it is now. Any context.
uint64_t text_checksum();
