// Physical memory: a descriptor for each page frame.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>

#include "lib/result.h"
#include "lib/units.h"

struct kmem_slab;

struct Page {
  kmem_slab* slab = nullptr;  // slab that the page belongs to (slab_os_pages_set_slab), or null
  // For a user page: a count of the page-table entries and of other users that have the page. The
  // high bits are the kPage* flags.
  std::atomic<uint32_t> mappings{0};
  // In the first page of a large kmalloc allocation: its number of pages, and kPagesOfBytes.
  uint32_t large_pages = 0;
};

// Flag in Page::large_pages: the memory is from kmalloc_bytes, and so holds no pointers. An
// enumerator, so that debuggers know it.
enum PageFlag : uint32_t { kPagesOfBytes = uint32_t{1} << 31 };

// Flags of a user page, stored in Page::mappings together with the count.

// A file has the page as well, so the removal of the last mapping does not free the page.
inline constexpr uint32_t kPageOfFile = uint32_t{1} << 31;
// The page may differ from the file's content on the device.
inline constexpr uint32_t kPageDirty = uint32_t{1} << 30;
// The page is not from the page arena. It is freed by the function that page_set_owner() has set.
inline constexpr uint32_t kPageOwned = uint32_t{1} << 29;
// A task has used a futex in the page. A futex is identified by its physical address, so the page
// stays in memory while it is mapped.
inline constexpr uint32_t kPageNamed = uint32_t{1} << 28;
// The bits of the count.
inline constexpr uint32_t kPageMappings = kPageNamed - 1;
// The most mappings of a page. Each mapping takes at least 8 bytes of a page table, and a region of
// memory, so machines with much memory can reach this number. Between this number and
// kPageMappings there is room for one temporary user (pin) of each task.
inline constexpr uint32_t kMostMappings = kPageMappings / 2;

// Adds a mapping to a page that the caller keeps from being freed. False if the page has
// kMostMappings.
[[nodiscard]] bool page_mapped(PhysAddr page);
// Removes a mapping; frees the page if this was the last mapping and no file has the page.
void page_unmapped(PhysAddr page);

// Keeps a page from being freed: a mapping without a page table.
class PagePin {
 public:
  PagePin() = default;
  ~PagePin() {
    if (page_.value) page_unmapped(page_);
  }
  PagePin(const PagePin&) = delete;
  PagePin& operator=(const PagePin&) = delete;
  // Called at most once. The page is mapped, and stays so during the call. False if the page has
  // kMostMappings.
  [[nodiscard]] bool take(PhysAddr page) {
    if (!page_mapped(page)) return false;
    page_ = page;
    return true;
  }
  explicit operator bool() const { return page_.value != 0; }

 private:
  PhysAddr page_{};
};
// Removes the page from its file. If no mapping is left, frees the page; otherwise the removal of
// the last mapping frees it.
void page_leaves_file(PhysAddr page);
// Sets the function that frees pages with kPageOwned. Called once, at boot.
void page_set_owner(void (*free)(PhysAddr page));

// Takes over all usable memory: makes the descriptors, base_arena and page_arena, the slab
// allocator and kmalloc. Called once, when only one CPU runs.
void memory_init();

// Returns the descriptor of a frame, or of an address in the direct map; nullptr if the address is
// above all memory.
Page* page_of(PhysAddr address);
Page* page_of(const void* direct_map_address);

// All descriptors, by frame number.
std::span<const Page> page_descriptors();

// Allocates one page from the page arena; KM_ZERO zeroes the page. `flags`: KM_*. ENOMEM.
Result<PhysAddr> page_alloc(int flags);
void page_free(PhysAddr page);

struct MemoryTotals {
  uint64_t total, free;  // bytes
};
MemoryTotals memory_totals();
// MemoryTotals::total alone, which costs nothing. Any context.
uint64_t memory_total();
