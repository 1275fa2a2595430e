// Physical memory.
//
// Each page frame has a descriptor in a flat array indexed by frame number, so the address gives
// the descriptor by arithmetic. The array lies at the start of the first usable range that is large
// enough. All other usable memory becomes spans of base_arena, which contains addresses of the
// direct map. Frames that are not usable memory have a descriptor that is never used.
//
// base_arena keeps memory in large runs. page_arena imports from it and serves one to eight pages
// from quantum caches, and so usually from the CPU's magazines; slabs, page tables and user pages
// come from page_arena. The allocator's own metadata comes from base_arena itself.
#include "pages.h"

#include "arch/x86_64/paging.h"
#include "arch/x86_64/tlb_check.h"
#include "arena.h"
#include "core/boot.h"
#include "core/log.h"
#include "kmalloc.h"
#include "lib/string.h"
#include "slab.h"
#include "slab_trace.h"

constinit arena* page_arena = nullptr;
constinit arena* kernel_virtual_arena = nullptr;

namespace {

constexpr size_t kQuantumCacheMax = 8 * kPageSize;

constinit Page* descriptors = nullptr;
constinit uint64_t frames = 0;
constinit uint64_t total_bytes = 0;
using FreePage = void (*)(PhysAddr page);
constinit FreePage owner_free = nullptr;

uintptr_t direct_map_address(PhysAddr address) {
  return reinterpret_cast<uintptr_t>(direct_map(address));
}

// Places the array of descriptors, and returns the memory range that contains it.
const MemoryRange* place_descriptors(const BootInfo& boot, uint64_t bytes) {
  for (const MemoryRange& range : boot.usable) {
    if (range.size < bytes + kPageSize) continue;
    descriptors = static_cast<Page*>(direct_map(range.start));
    for (uint64_t i = 0; i < frames; i++) new (&descriptors[i]) Page;
    return &range;
  }
  panic("no room for %lu bytes of page descriptors", bytes);
}

arena* must(arena* made, const char* name) {
  if (!made) panic("no memory for the arena %s", name);
  return made;
}

// For debuggers: the compiler's debugging information has a constant only if a variable holds it.
[[gnu::used]] constexpr uint32_t page_of_file = kPageOfFile, page_mappings = kPageMappings;

}  // namespace

void memory_init() {
  const BootInfo& boot = boot_info();
  frames = boot.highest.value >> kPageShift;
  const uint64_t bytes = align_up(frames * sizeof(Page), kPageSize);
  const MemoryRange* const host = place_descriptors(boot, bytes);

  // base_arena begins with the rest of the range `host`. The boundary tags for the other ranges are
  // allocated from this memory.
  arena_init(direct_map_address(host->start + bytes), host->size - bytes);
  total_bytes = host->size - bytes;
  for (const MemoryRange& range : boot.usable) {
    // The frame at 0 is not used: no valid address may look like a null pointer.
    const uint64_t start = range.start.value == 0 ? kPageSize : range.start.value;
    const uint64_t end = range.start.value + range.size;
    if (&range == host || start >= end) continue;
    if (arena_add(base_arena, direct_map_address({start}), end - start, KM_ATOMIC) != 0)
      panic("no memory for boundary tags");
    total_bytes += end - start;
  }

  kmem_init();
  page_arena = must(arena_create("page", 0, 0, kPageSize, arena_span_alloc, arena_span_free,
                                 base_arena, kQuantumCacheMax, KM_ATOMIC),
                    "page");
  kernel_virtual_arena =
      must(arena_create("kernel_virtual", kKernelVirtualBase + kKernelVirtualReserved,
                        kKernelVirtualSize - kKernelVirtualReserved, kPageSize, nullptr, nullptr,
                        nullptr, 0, KM_ATOMIC),
           "kernel_virtual");
  kmalloc_init();
}

Page* page_of(PhysAddr address) {
  const uint64_t frame = address.value >> kPageShift;
  return frame < frames ? &descriptors[frame] : nullptr;
}

Page* page_of(const void* address) {
  return page_of(direct_map_phys(address));
}

std::span<const Page> page_descriptors() {
  return {descriptors, frames};
}

ALLOCATOR_TEXT Result<PhysAddr> page_alloc(int flags) {
  void* const memory = arena_alloc(page_arena, kPageSize, flags);
  if (!memory) return Errno::ENOMEM;
  if (flags & KM_ZERO) memset(memory, 0, kPageSize);
  return direct_map_phys(memory);
}

ALLOCATOR_TEXT void page_free(PhysAddr page) {
  check_translations_to(page);
  arena_free(page_arena, direct_map(page), kPageSize);
}

namespace {

void give_back_unused(PhysAddr page, uint32_t left) {
  left &= ~(kPageNamed | kPageDirty);  // meaningless for a page with neither mapping nor file
  if (left != 0 && left != kPageOwned) return;
  page_of(page)->mappings.store(0, std::memory_order_relaxed);
  left == 0 ? page_free(page) : owner_free(page);
}

}  // namespace

bool page_mapped(PhysAddr page) {
  std::atomic<uint32_t>& mappings = page_of(page)->mappings;
  if ((mappings.fetch_add(1, std::memory_order_relaxed) & kPageMappings) < kMostMappings)
    return true;
  mappings.fetch_sub(1, std::memory_order_relaxed);
  return false;
}

void page_unmapped(PhysAddr page) {
  give_back_unused(page, page_of(page)->mappings.fetch_sub(1, std::memory_order_acq_rel) - 1);
}

void page_leaves_file(PhysAddr page) {
  give_back_unused(page, page_of(page)->mappings.fetch_sub(kPageOfFile, std::memory_order_acq_rel) -
                             kPageOfFile);
}

void page_set_owner(void (*free)(PhysAddr page)) {
  owner_free = free;
}

uint64_t memory_total() {
  return total_bytes;
}

MemoryTotals memory_totals() {
  struct arena_stats base;
  arena_stats(base_arena, &base);
  uint64_t free = base.total_bytes - base.allocated_bytes;
  // Free objects in the page arena's quantum caches are free memory, too.
  for (kmem_cache* cache = kmem_cache_next(nullptr); cache; cache = kmem_cache_next(cache)) {
    if (kmem_cache_arena(cache) != page_arena || !(kmem_cache_flags(cache) & KMC_QCACHE)) continue;
    struct kmem_cache_stats stats;
    kmem_cache_stats(cache, &stats);
    free += stats.total_bytes - stats.live * stats.object_size;
  }
  return {total_bytes, free};
}
