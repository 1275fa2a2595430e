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
  std::span<const MemoryRange> usable;  // page-aligned, ascending, not overlapping, without kernel
                                        // image, initial archive and early memory
  std::span<const std::byte>
      archive;  // initial archive (cpio newc), in the direct map; empty if none
  char command_line[512] = {};
  PhysAddr highest;    // first address after all memory
  PhysAddr acpi_root;  // the RSDP if the boot loader named it, else 0
};
const BootInfo& boot_info();

// Memory for the time before the memory core, never freed, from below 4 GiB; panics when there is
// none. `align` is a power of two.
void* early_alloc(size_t size, size_t align);
// From now on boot_info().usable does not change and early_alloc panics: the memory core takes
// over.
void early_alloc_close();
// Reads what the boot loader left at `information`; `protocol` is 0 for PVH, 1 for Multiboot2.
// Once, with the boot page tables.
void boot_parse(uint32_t protocol, PhysAddr information);

// Value of the word `name=` on the kernel command line, or "" when the word stands alone; nullptr
// if it is not there. Ends at a space; `length` gets its length.
const char* boot_option(const char* name, size_t* length);
