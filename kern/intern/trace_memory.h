// The tracer's own memory: pages with a limit.
//
// Pages come from the arena `trace`, so that kmemstat shows the tracer's memory. The arena forwards
// its allocations and frees to base_arena. It does not forward them to the page arena, because a
// hook would then sometimes have to make that arena's next slab, which takes ten times as long as
// the rest of the hook. The tracer's locks are the innermost ones of all. So while a hook holds one
// of them, it cannot take a page from the arena, which has a lock, too. Therefore hooks take pages
// from a pool. Before its first lock, each hook calls trace_memory_prepare(), which tops up the
// pool from the arena. Later the hook takes pages from the pool with trace_page_take(), without a
// lock (page_pool_impl.h).
//
// The pool cannot run dry while there is memory. A hook takes at most kPagesPerHook pages, and on
// each CPU at most one hook is under way, because interrupts are off. Before a hook begins, it tops
// up the pool to kPagesPerHook pages for each CPU. For this it adds at most kPagesPerHook pages. In
// addition the pool has kSparePages pages, which hooks restore one at a time. While base_arena has
// pending work (arena_prepare), a hook does a step of this work instead. Hooks that take many pages
// are rare. So usually a hook restores one page, and no hook has to restore all pages that an
// earlier hook took. (When a hook needs a page for a new stack, other hooks may fill that page
// first. Then the hook needs another page, perhaps several times. The bound still holds for all
// hooks together, because each hook that filled such a page took none itself.)
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/cpu.h"
#include "intern/page_pool_impl.h"

// The most pages that one hook takes. Each entry that a hook adds to the table of stacks or
// contexts takes a page, for the entry or for heads: two for a program and a context, three for two
// stacks and (in a probe's hit) their pair. Each of the two tables may take a directory page. A
// record takes a page of records, a segment of buckets and a directory.
inline constexpr uint32_t kPagesPerHook = 10;
// The number of spare pages in the pool. It is also the most pages that a hook takes if its stack
// and context are in the tables already: the pages for a record.
inline constexpr uint32_t kSparePages = 3;

// The pool, and the number of pages that the pool should have. They are declared here because
// trace_memory_low() uses them.
extern PagePool<size_t{kPagesPerHook} * kMaxCpus + kSparePages> trace_page_pool;
extern std::atomic<uint32_t> trace_pool_reserve;

// Makes the arena. Called once, at boot. `limit` is in bytes.
void trace_memory_init(uint64_t limit);
// Fills the pool for `cpus` CPUs. If there is not enough memory now, hooks request the missing
// pages later. Called with interrupts on.
void trace_memory_begin(uint32_t cpus);
// Gives back the pages of the pool. Called with interrupts on, when nothing is traced any more.
void trace_memory_end();

// Tops up the pool to kPagesPerHook pages for each CPU, by at most kPagesPerHook pages. If only
// spare pages are missing, does a step of base_arena's pending work; if none is pending, restores
// one spare page. Called in any context but NMI. The caller holds no lock of a rank below
// kArenaTags.
void trace_memory_prepare();
// True if trace_memory_prepare() has anything to do.
inline bool trace_memory_low() {
  return trace_page_pool.count() < trace_pool_reserve.load(std::memory_order_relaxed);
}
// trace_memory_prepare(). Returns true if there is no page afterwards, so that stacks, contexts and
// records can take none.
bool trace_memory_used_up();
// Takes a page with undefined contents from the pool. Returns nullptr if the pool is empty, because
// the limit is reached or there is no memory. Any context, any lock.
void* trace_page_take();
// Returns a page to the arena. Called in any context but NMI. The caller holds no lock of a rank
// below kArenaTags.
void trace_page_free(void* page);
// Puts a page back into the pool after a hook has taken it but not needed it. Context and locks as
// for trace_page_free().
void trace_page_return(void* page);

// Takes contiguous whole pages from the arena, within the limit; nullptr if there are none. `size`
// is in bytes. Context and locks as for trace_page_free().
void* trace_block_take(size_t size);
void trace_block_free(void* block, size_t size);

// Memory of `size` bytes for dumps and sessions, from the same arena. It does not count against the
// limit. nullptr if there is none. May sleep.
void* trace_copy_alloc(size_t size);
void trace_copy_free(void* memory, size_t size);

// trace_memory_used() is the number of bytes in use, including the pool, but not the memory of
// dumps and sessions. trace_memory_limit() is the limit in bytes.
uint64_t trace_memory_used();
uint64_t trace_memory_limit();
// True if little of the limit is left, or the last request for a page failed. Any context.
bool trace_memory_short();
// Sets the limit in bytes. If more bytes are in use, nothing is freed, but no more pages are taken.
void trace_memory_set_limit(uint64_t bytes);
