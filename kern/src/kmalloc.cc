// Memory of any size. A request of up to 8192 bytes is served by the cache of the smallest size
// class that is large enough; one of two tables gives this class. Up to 2048 bytes there are
// classes between the powers of two, so that a request of 49 to 2048 bytes wastes less than a
// quarter of the class's size, and usually less than an eighth. A larger request takes whole pages
// from the page arena; the descriptor of the first page holds the number of pages. kfree reads the
// page descriptor: if it names a slab, the memory is an object of the slab's cache.
//
// kmalloc_bytes serves memory for bytes: names, text, data that is being copied. The search for
// unreachable objects (reach/reach.h) must not take such bytes for pointers, because users choose
// them, and because a buffer is often larger than what it holds, so that old words remain behind
// its contents. So these bytes have caches of their own, with KMC_NOPOINTERS, and the descriptor of
// a large allocation has a flag. An object need not say what it holds: where it lies says it. There
// are few such objects at a time, and most of them are buffers whose sizes are powers of two. So
// the size classes are the powers of two. Ten more caches take 6 KiB on one CPU, and a slab each
// once they are used.
#include "kmalloc.h"

#include <array>
#include <bit>
#include <cstdint>

#include "arena.h"
#include "core/log.h"
#include "lib/format.h"
#include "lib/string.h"
#include "lib/units.h"
#include "pages.h"
#include "slab_trace.h"

namespace {

constexpr std::array<uint16_t, 27> kClasses = {16,  32,   48,   64,   80,   96,   112,  128,  160,
                                               192, 224,  256,  320,  384,  448,  512,  640,  768,
                                               896, 1024, 1280, 1536, 1792, 2048, 3072, 4096, 8192};
constexpr size_t kFineStep = 16, kFineMax = 1024;
constexpr size_t kCoarseStep = 256, kCoarseMax = 8192;

// Makes a table of size classes. Its entry n is the index in kClasses for sizes of (n-1)*kStep+1 to
// n*kStep bytes.
template <size_t kStep, size_t kMax>
constexpr auto make_class_table() {
  std::array<uint8_t, kMax / kStep + 1> table{};
  for (size_t n = 1; n < table.size(); n++) {
    while (kClasses[table[n]] < n * kStep) table[n]++;
  }
  return table;
}
constexpr auto kFine = make_class_table<kFineStep, kFineMax>();
constexpr auto kCoarse = make_class_table<kCoarseStep, kCoarseMax>();

constinit std::array<kmem_cache*, kClasses.size()> caches{};

// The caches of kmalloc_bytes: of kByteLeast bytes, twice as many, and so on up to kCoarseMax.
constexpr size_t kByteLeast = 16;
constexpr unsigned byte_class(size_t size) {
  return static_cast<unsigned>(std::bit_width((size - 1) | (kByteLeast - 1)) -
                               std::bit_width(kByteLeast - 1));
}
constinit std::array<kmem_cache*, byte_class(kCoarseMax) + 1> byte_caches{};

kmem_cache* cache_for(size_t size) {
  if (size <= kFineMax) return caches[kFine[(size + kFineStep - 1) / kFineStep]];
  return caches[kCoarse[(size + kCoarseStep - 1) / kCoarseStep]];
}

ALLOCATOR_TEXT void* allocate_pages(size_t size, int flags, uint32_t page_flags) {
  if (size > SIZE_MAX / 2) return nullptr;
  void* const memory = arena_alloc(page_arena, size, flags);
  if (!memory) return nullptr;
  page_of(memory)->large_pages =
      static_cast<uint32_t>(align_up(size, kPageSize) / kPageSize) | page_flags;
  if (flags & KM_ZERO) memset(memory, 0, size);
  return memory;
}

size_t large_bytes(const Page& page) {
  return size_t{page.large_pages & ~kPagesOfBytes} * kPageSize;
}

ALLOCATOR_TEXT void free_pages(void* memory) {
  Page* const page = page_of(memory);
  if (!page || page->large_pages == 0 || reinterpret_cast<uintptr_t>(memory) % kPageSize != 0)
    panic("kfree: %p is not allocated", memory);
  const size_t size = large_bytes(*page);
  page->large_pages = 0;
  arena_free(page_arena, memory, size);
}

}  // namespace

void kmalloc_init() {
  const auto make = [](const char* prefix, size_t size, int flags) {
    char name[KMEM_CACHE_NAME_MAX];
    format(name, sizeof(name), "%s_%zu", prefix, size);
    kmem_cache* const cache = kmem_cache_create(name, size, size < kPageSize ? 16 : kPageSize,
                                                flags, nullptr, nullptr, nullptr, nullptr);
    if (!cache) panic_no_cache(name);
    return cache;
  };
  for (size_t i = 0; i < caches.size(); i++) caches[i] = make("kmalloc", kClasses[i], 0);
  for (size_t i = 0; i < byte_caches.size(); i++)
    byte_caches[i] = make("bytes", kByteLeast << i, KMC_NOPOINTERS);
}

ALLOCATOR_TEXT void* kmalloc(size_t size, int flags) {
  if (size - 1 >= kCoarseMax) return size == 0 ? nullptr : allocate_pages(size, flags, 0);
  return kmem_cache_alloc_sized(cache_for(size), size, flags);
}

ALLOCATOR_TEXT void* kmalloc_bytes(size_t size, int flags) {
  if (size - 1 >= kCoarseMax)
    return size == 0 ? nullptr : allocate_pages(size, flags, kPagesOfBytes);
  return kmem_cache_alloc_sized(byte_caches[byte_class(size)], size, flags);
}

ALLOCATOR_TEXT void kfree(void* memory) {
  if (!memory) return;
  if (kmem_cache* const cache = kmem_cache_of(memory))
    kmem_cache_free(cache, memory);
  else
    free_pages(memory);
}

size_t kmalloc_usable_size(const void* memory) {
  if (const kmem_cache* const cache = kmem_cache_of(memory))
    return kmem_cache_usable_size(cache, memory);
  return large_bytes(*page_of(memory));
}

void panic_no_cache(const char* name) {
  panic("no memory for the cache %s", name);
}
