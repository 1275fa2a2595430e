#include "intern/trace_memory.h"

#include "arena.h"
#include "core/log.h"
#include "lib/units.h"
#include "slab.h"
#include "slab_trace.h"

constinit PagePool<size_t{kPagesPerHook} * kMaxCpus + kSparePages> trace_page_pool;
constinit std::atomic<uint32_t> trace_pool_reserve{0};

namespace {

constinit std::atomic<uint64_t> used{0};
constinit std::atomic<uint64_t> limit{0};
constinit arena* trace_arena = nullptr;
// True if the last request for a page failed.
constinit std::atomic<bool> had_none{false};
constexpr uint64_t kShortDivisor = 16;  // memory is short when less than 1/16 of the limit is left

void* pages_within_limit(size_t size) {
  if (kmem_inject(KMEM_INJECT_TRACE, nullptr, size, KM_ATOMIC)) return nullptr;
  // `used` is raised only by a compare-and-swap, so it never exceeds the limit, even for a moment.
  uint64_t before = used.load(std::memory_order_relaxed);
  do {
    if (before + size > limit.load(std::memory_order_relaxed)) return nullptr;
  } while (!used.compare_exchange_weak(before, before + size, std::memory_order_relaxed));
  if (void* pages = arena_alloc(trace_arena, size, KM_ATOMIC)) return pages;
  used.fetch_sub(size, std::memory_order_relaxed);
  return nullptr;
}

void* pages_from_arena(size_t size) {
  void* const pages = pages_within_limit(size);
  had_none.store(!pages, std::memory_order_relaxed);
  return pages;
}

// Empties trace_page_pool.
void drain() {
  while (void* page = trace_page_pool.take()) trace_page_free(page);
}

}  // namespace

void trace_memory_init(uint64_t limit_bytes) {
  trace_memory_set_limit(limit_bytes);
  trace_arena = arena_create("trace", 0, 0, kPageSize, arena_span_alloc, arena_span_free,
                             base_arena, 0, KM_SLEEP | KM_NOTRACE);
  if (!trace_arena) panic("no memory for the tracer's arena");
  arena_forward(trace_arena);
}

void trace_memory_begin(uint32_t cpus) {
  trace_pool_reserve.store(kPagesPerHook * cpus + kSparePages, std::memory_order_relaxed);
  for (uint32_t i = 0; i < cpus + kSparePages; i++) trace_memory_prepare();
}

// Another CPU may be putting a page into the pool right now. After the exchange below, that CPU
// sees that the wanted number of pages is 0, and empties the pool itself (trace_page_return).
void trace_memory_end() {
  trace_pool_reserve.exchange(0, std::memory_order_seq_cst);
  drain();
  had_none.store(false, std::memory_order_relaxed);
}

void trace_memory_prepare() {
  const uint32_t wanted = trace_pool_reserve.load(std::memory_order_relaxed);
  for (uint32_t i = 0; i < kPagesPerHook; i++) {
    // A round adds a page if the pool has fewer than kPagesPerHook pages for each CPU. If only
    // spare pages are missing, only the first round does anything: it does a step of base_arena's
    // pending work, or adds a spare page if no work is pending.
    const uint32_t count = trace_page_pool.count();
    if (count + (i == 0 ? 0 : kSparePages) >= wanted) return;
    if (count + kSparePages >= wanted && arena_prepare(base_arena)) return;
    void* page = pages_from_arena(kPageSize);
    if (!page) return;
    trace_page_return(page);
  }
}

bool trace_memory_used_up() {
  trace_memory_prepare();
  return trace_page_pool.count() == 0;
}

void* trace_page_take() {
  return trace_page_pool.take();
}

void trace_page_return(void* page) {
  if (!trace_page_pool.put(page)) trace_page_free(page);
  if (trace_pool_reserve.load(std::memory_order_seq_cst) == 0) drain();
}

void trace_page_free(void* page) {
  trace_block_free(page, kPageSize);
}

void* trace_block_take(size_t size) {
  return pages_from_arena(size);
}

void trace_block_free(void* block, size_t size) {
  arena_free(trace_arena, block, size);
  used.fetch_sub(size, std::memory_order_relaxed);
}

ALLOCATOR_TEXT void* trace_copy_alloc(size_t size) {
  if (kmem_inject(KMEM_INJECT_TRACE, nullptr, size, KM_SLEEP)) return nullptr;
  return arena_alloc(trace_arena, size, KM_SLEEP);
}
void trace_copy_free(void* memory, size_t size) {
  arena_free(trace_arena, memory, size);
}

uint64_t trace_memory_used() {
  return used.load(std::memory_order_relaxed);
}
uint64_t trace_memory_limit() {
  return limit.load(std::memory_order_relaxed);
}

bool trace_memory_short() {
  const uint64_t most = trace_memory_limit();
  return had_none.load(std::memory_order_relaxed) ||
         trace_memory_used() + most / kShortDivisor > most;
}

void trace_memory_set_limit(uint64_t bytes) {
  limit.store(bytes, std::memory_order_relaxed);
}
