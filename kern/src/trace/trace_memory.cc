#include "trace_memory.h"

#include <atomic>

#include "arena.h"
#include "lib/units.h"
#include "log.h"
#include "slab.h"
#include "spinlock.h"

namespace {

struct FreePage {
  FreePage* next;
};

struct Pool {
  Spinlock lock{LockRank::kTraceMemory};
  // Guarded by lock; the count is also peeked at without it.
  FreePage* first GUARDED_BY(lock) = nullptr;
  std::atomic<uint32_t> count{0};
};

constinit Pool pool;
constinit std::atomic<uint32_t> reserve{0};  // what the pool should have
constinit std::atomic<uint64_t> used{0};
constinit std::atomic<uint64_t> limit{0};
constinit arena* trace_arena = nullptr;

void* page_from_arena() {
  // What is in use is never more than the limit, not even for a moment.
  uint64_t before = used.load(std::memory_order_relaxed);
  do {
    if (before + kPageSize > limit.load(std::memory_order_relaxed)) return nullptr;
  } while (!used.compare_exchange_weak(before, before + kPageSize, std::memory_order_relaxed));
  if (void* page = arena_alloc(trace_arena, kPageSize, KM_ATOMIC)) return page;
  used.fetch_sub(kPageSize, std::memory_order_relaxed);
  return nullptr;
}

void push(void* memory) {
  auto* page = static_cast<FreePage*>(memory);
  Guard guard(pool.lock);
  page->next = pool.first;
  pool.first = page;
  pool.count.store(pool.count.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

void* import_from_pages(arena* source, size_t size, int flags) {
  return arena_alloc(source, size, flags);
}
void export_to_pages(arena* source, void* base, size_t size) {
  arena_free(source, base, size);
}

}  // namespace

void trace_memory_init(uint64_t limit_bytes) {
  trace_memory_set_limit(limit_bytes);
  trace_arena = arena_create("trace", 0, 0, kPageSize, import_from_pages, export_to_pages, page_arena, 0, KM_SLEEP);
  if (!trace_arena) panic("no memory for the tracer's arena");
}

void trace_memory_begin(uint32_t cpus) {
  reserve.store(kPagesPerHook * cpus, std::memory_order_relaxed);
  for (uint32_t i = 0; i < cpus; i++) trace_memory_prepare();
}

void trace_memory_end() {
  reserve.store(0, std::memory_order_relaxed);
  while (void* page = trace_page_take()) trace_page_free(page);
}

void trace_memory_prepare() {
  const uint32_t wanted = reserve.load(std::memory_order_relaxed);
  for (uint32_t i = 0; i < kPagesPerHook && pool.count.load(std::memory_order_relaxed) < wanted; i++) {
    void* page = page_from_arena();
    if (!page) return;
    push(page);
  }
}

void* trace_page_take() {
  Guard guard(pool.lock);
  FreePage* page = pool.first;
  if (!page) return nullptr;
  pool.first = page->next;
  pool.count.store(pool.count.load(std::memory_order_relaxed) - 1, std::memory_order_relaxed);
  return page;
}

void trace_page_free(void* page) {
  arena_free(trace_arena, page, kPageSize);
  used.fetch_sub(kPageSize, std::memory_order_relaxed);
}

uint64_t trace_memory_used() {
  return used.load(std::memory_order_relaxed);
}
uint64_t trace_memory_limit() {
  return limit.load(std::memory_order_relaxed);
}

void trace_memory_set_limit(uint64_t bytes) {
  limit.store(bytes, std::memory_order_relaxed);
}
