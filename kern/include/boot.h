// What the boot loader handed over, whichever way the kernel was started.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "lib/units.h"

struct MemoryRange {
  PhysAddr start;
  uint64_t size;
};

struct BootInfo {
  std::span<const MemoryRange> usable;  // page-aligned, ascending, not overlapping, without kernel image, initial archive and early memory
  std::span<const std::byte> archive;   // initial archive (cpio newc), in the direct map; empty if none
  char command_line[512];
  PhysAddr highest;                     // first address after all memory
};
const BootInfo& boot_info();
// Value of the word `name=` on the kernel command line, or "" when the word stands alone; nullptr if it is not there. Ends at a
// space; `length` gets its length.
const char* boot_option(const char* name, size_t* length);
