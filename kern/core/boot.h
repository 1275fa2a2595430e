// Information from the boot loader, independent of the boot protocol.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/memory_map_impl.h"
#include "lib/units.h"

// The screen that the boot loader has set up.
struct Framebuffer {
  enum class Kind : uint8_t { kNone, kPixels, kText };
  struct Colour {
    uint8_t first_bit, bits;  // where the colour lies in a pixel
  };

  Kind kind = Kind::kNone;
  PhysAddr address;
  uint32_t pitch = 0;              // bytes from one line to the next
  uint32_t width = 0, height = 0;  // in pixels; for kText in characters
  uint8_t pixel_bits = 0;
  Colour red{}, green{}, blue{};  // for kPixels
};

struct BootInfo {
  std::span<const MemoryRange> usable;  // page-aligned, ascending, not overlapping, without kernel
                                        // image, initial archive and early memory
  std::span<const std::byte>
      archive;  // initial archive (cpio newc), in the direct map; empty if none
  char command_line[512] = {};
  // All memory that the loader reports, including the kernel's and ACPI's. The direct map maps it.
  MemoryMap memory;
  PhysAddr highest;    // first address after all memory; there may be holes below it
  PhysAddr acpi_root;  // the RSDP if the boot loader gave it, otherwise 0
  Framebuffer framebuffer;
};
const BootInfo& boot_info();

// Allocates memory below 4 GiB before the allocator is up; the memory is never freed. Panics when
// out of memory. `align` is a power of two.
void* early_alloc(size_t size, size_t align);
// Ends early allocation: from now on boot_info().usable does not change and early_alloc panics.
void early_alloc_close();
// Reads the boot loader's structures at `information`; `protocol` is 0 for PVH, 1 for Multiboot2.
// Called once, while the boot page tables are in use.
void boot_parse(uint32_t protocol, PhysAddr information);

// Looks for `name=VALUE` on the kernel command line. Returns the start of VALUE and stores the
// length of VALUE in `length`; VALUE ends at a space. Returns "" if the word is `name` alone, and
// nullptr if the command line has neither word.
const char* boot_option(const char* name, size_t* length);

// Logs a line for each word of the kernel command line that no configuration of the kernel reads.
// Called once, after boot_parse().
void boot_report_unknown_words();
