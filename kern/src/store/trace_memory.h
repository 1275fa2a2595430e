// The tracer's own memory: pages with a limit.
//
// Pages come from the arena `trace`, so that kmemstat shows the tracer's memory. This arena
// forwards to base_arena instead of the page arena, because a hook should not make the page arena's
// next slab, which takes ten times as long as the rest of the hook. The tracer's locks are the
// innermost ones of all, so while one of them is held, no page can be taken from the arena, which
// has a lock, too. Therefore hooks take pages from a pool. Before its first lock, each hook calls
// trace_memory_prepare(), which tops up the pool from the arena. Later it takes pages from the pool
// with trace_page_take(), without a lock (page_pool.h).
//
// The pool cannot run dry while there is memory. A hook takes at most kPagesPerHook pages. Before
// it begins, it tops up the pool to kPagesPerHook pages for each CPU, by at most kPagesPerHook
// pages; on each CPU at most one hook is under way, since interrupts are off. In addition the pool
// has kSparePages; a hook restores one of these, or does other pending work of base_arena. Hooks
// that take many pages are rare, so usually a hook restores one page, and no hook has to restore
// all pages that an earlier hook took. (A hook that adds a stack may take several pages in a row,
// if other hooks fill each page first. Each such page counts for the hook that filled it, which
// took none itself.)
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
// The most pages that a hook takes if its stack and context are in the tables already: the pages
// for a record.
inline constexpr uint32_t kSparePages = 3;

// The pool, and the number of pages that it should have. Declared here for trace_memory_low().
extern PagePool<size_t{kPagesPerHook} * kMaxCpus + kSparePages> trace_page_pool;
extern std::atomic<uint32_t> trace_pool_reserve;

// Makes the arena. Called once, at boot. `limit` is in bytes.
void trace_memory_init(uint64_t limit);
// Fills the pool for `cpus` CPUs. If there is not enough memory now, hooks request the missing
// pages later. Interrupts on.
void trace_memory_begin(uint32_t cpus);
// Gives the pages of the pool back, when nothing is traced any more. Interrupts on.
void trace_memory_end();

// Tops up the pool to kPagesPerHook pages for each CPU, by at most kPagesPerHook pages; if the pool
// has these, restores one spare page. Any context but NMI; no lock of a rank below kArenaTags is
// held.
void trace_memory_prepare();
// True if trace_memory_prepare() has anything to do.
inline bool trace_memory_low() {
  return trace_page_pool.count() < trace_pool_reserve.load(std::memory_order_relaxed);
}
// Takes a page with undefined contents from the pool; nullptr if the pool is empty, at the limit or
// without memory. Any context, any lock.
void* trace_page_take();
// Returns a page to the arena. Any context but NMI; no lock of a rank below kArenaTags is held.
void trace_page_free(void* page);
// Returns a page that a hook has not needed to the pool. Context and locks as for
// trace_page_free().
void trace_page_return(void* page);

// Contiguous whole pages from the arena, within the limit; nullptr if there are none. `size` is in
// bytes. Context and locks as for trace_page_free().
void* trace_block_take(size_t size);
void trace_block_free(void* block, size_t size);

// Memory of `size` bytes for dumps and sessions, from the same arena. It does not count against the
// limit. nullptr if there is none. May sleep.
void* trace_copy_alloc(size_t size);
void trace_copy_free(void* memory, size_t size);

// The bytes in use, including the pool, but not the memory of dumps and sessions; and the limit in
// bytes.
uint64_t trace_memory_used();
uint64_t trace_memory_limit();
// True if little of the limit is left, or the last request for a page failed. Any context.
bool trace_memory_short();
// Sets the limit in bytes. If more is in use, nothing is freed, but no more pages are taken.
void trace_memory_set_limit(uint64_t bytes);
