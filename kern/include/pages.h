// Physical memory: a descriptor for each page frame.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>

#include "lib/result.h"
#include "lib/units.h"

struct Page {
  void* slab = nullptr;  // slab that the page belongs to (slab_os_pages_set_slab), or null
  std::atomic<uint32_t> mappings{0};  // user page: address spaces that map it (copy on write)
  uint32_t large_pages = 0;           // first page of a large kmalloc: its number of pages
};

// Takes over all usable memory: makes the descriptors, base_arena and page_arena, the slab
// allocator and kmalloc. Called once, with one CPU.
void memory_init();

// The descriptor of a frame, or of an address in the direct map; nullptr if it is not memory.
Page* page_of(PhysAddr address);
Page* page_of(const void* direct_map_address);

// All descriptors, by frame number.
std::span<const Page> page_descriptors();

// One page from the page arena; zeroed with KM_ZERO. `flags`: KM_*. ENOMEM.
Result<PhysAddr> page_alloc(int flags);
void page_free(PhysAddr page);

struct MemoryTotals {
  uint64_t total, free;  // bytes
};
MemoryTotals memory_totals();
