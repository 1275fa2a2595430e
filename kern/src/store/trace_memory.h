// The tracer's own memory: pages with a limit.
//
// Pages come from the arena `trace`, so that kmemstat shows the tracer's memory. That arena
// forwards to base_arena instead of the page arena, because a hook should not make the page arena's
// next slab, which takes ten times as long as the rest of the hook. The tracer's locks are the
// innermost ones, so no page can be taken from the arena, which has a lock of its own, while one of
// them is held. Therefore a pool of pages lies between. Each hook calls trace_memory_prepare()
// before its first lock, which tops up the pool, and takes pages from the pool with
// trace_page_take(), without a lock (page_pool.h).
//
// The pool cannot run dry while there is memory. A hook takes at most kPagesPerHook pages. Before
// it begins, it tops up the pool to kPagesPerHook pages for each CPU, with at most kPagesPerHook
// pages; on each CPU at most one hook is under way, since interrupts are off. Above these the pool
// has kSparePages, of which a hook restores one, or does other pending work of base_arena. Hooks
// that take many pages are rare, so usually this is all, and no hook pays for all pages that an
// earlier one took. (A hook that adds a stack may take several pages in a row, when others fill
// each before it. Each such page counts for the hook that filled it, which took none itself.)
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/cpu.h"
#include "store/page_pool.h"

// The most pages that one hook takes. An addition to a table of stacks or contexts takes a page for
// its entry or for heads: two for a program and a context, three for two stacks and their pair, and
// a directory page for each table. A record takes a page of records, a segment of buckets and a
// directory. A recent kernel stack takes one page, a recent user stack two.
inline constexpr uint32_t kPagesPerHook = 13;
// The pages of an allocation whose stack and context are known: those of a record.
inline constexpr uint32_t kSparePages = 3;

// The pool, and the number of pages that it should have. For trace_memory_low().
extern PagePool<size_t{kPagesPerHook} * kMaxCpus + kSparePages> trace_page_pool;
extern std::atomic<uint32_t> trace_pool_reserve;

// Once, at boot. `limit` in bytes.
void trace_memory_init(uint64_t limit);
// Fills the pool for `cpus` CPUs. Hooks will request pages that are not available now. Interrupts
// on.
void trace_memory_begin(uint32_t cpus);
// Gives the pool back. Nothing is traced any more. Interrupts on.
void trace_memory_end();

// Tops up the pool: with at least one page, and up to the spare ones, but with at most
// kPagesPerHook pages. Any context but NMI; no lock of a rank below kArenaTags is held.
void trace_memory_prepare();
// True if that has anything to do.
inline bool trace_memory_low() {
  return trace_page_pool.count() < trace_pool_reserve.load(std::memory_order_relaxed);
}
// A page with undefined contents from the pool, or nullptr at the limit or without memory. Any
// context, any lock.
void* trace_page_take();
// Returns a page to the arena. The same context as trace_memory_prepare().
void trace_page_free(void* page);
// Returns a page that a hook has not needed to the pool. The same context.
void trace_page_return(void* page);

// Contiguous whole pages from the arena, within the limit; nullptr if there are none. The same
// context as trace_memory_prepare().
void* trace_block_take(size_t size);
void trace_block_free(void* block, size_t size);

// Memory of any size for dumps and sessions, from the same arena but outside the limit; nullptr if
// there is none. May sleep.
void* trace_copy_alloc(size_t size);
void trace_copy_free(void* memory, size_t size);

// Bytes, the pool included, dumps and sessions not.
uint64_t trace_memory_used();
uint64_t trace_memory_limit();
// True if little of the limit is left, or the last request for a page failed. Any context.
bool trace_memory_short();
// Sets the limit for new pages; used memory beyond it stays.
void trace_memory_set_limit(uint64_t bytes);
