// The tables of each CPU: descriptors, task state, stacks. Private to this folder.
#pragma once

#include <cstdint>

#include "core/cpu.h"
#include "lib/units.h"

class PageTables;

inline constexpr uint16_t kKernelCode = 0x08, kKernelData = 0x10, kUserData = 0x18 | 3,
                          kUserCode = 0x20 | 3, kTssSelector = 0x28;

// Interrupt stacks that the CPU switches to by itself.
enum IstIndex : uint8_t { kIstNone = 0, kIstDoubleFault = 1, kIstNmi = 2, kIstMachineCheck = 3 };
inline constexpr unsigned kIstCount = 3;
inline constexpr size_t kIstStackSize = 8192;

struct [[gnu::packed]] TaskStateSegment {
  uint32_t reserved0;
  uint64_t rsp[3];
  uint64_t reserved1;
  uint64_t ist[7];
  uint64_t reserved2;
  uint16_t reserved3, io_map;
};

struct alignas(64) CpuTables {
  Cpu cpu;
  alignas(16) uint64_t gdt[7];
  alignas(16) TaskStateSegment tss;
  uint64_t first_stack;     // top of the stack on which the CPU began
  PageTables* user_tables;  // page tables active on this CPU; nullptr: the kernel's
  uint64_t flushes;         // PageTables::flushes()
};
CpuTables& cpu_tables(CpuId id);

// Sets up the current CPU as number `id`: descriptors, GS, interrupt table, features. `ist_tops`:
// the tops of the CPU's kIstCount interrupt stacks.
void cpu_setup(CpuId id, uint32_t apic_id, uint64_t stack_top, const uint64_t* ist_tops);
// Returns the ID of this CPU's local APIC, from CPUID: all 32 bits if the CPU has x2APIC.
uint32_t initial_apic_id();
// Sets up GS, so that locks work. Called before anything else on the boot CPU.
void cpu_early_setup();
// Finds the processors' features, and patches stac and clac (smap_impl.h) into the code if the
// processors have SMAP. Called once, while the boot page tables are active, because the final ones
// map the code read-only.
void cpu_find_features();
// Loads the interrupt descriptor table (trap.cc).
void trap_load_table();
// Sets the result of cpu_count(). Called once, when all CPUs that work have started.
void cpu_set_count(unsigned count);
