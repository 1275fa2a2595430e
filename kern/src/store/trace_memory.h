// The tracer's own memory: pages with a limit.
//
// Pages come from the arena `trace`, so that what the tracer uses stands in kmemstat. It passes on
// what base_arena has, and not what the page arena has: a hook is not to make that one's next slab,
// which takes ten times as long as all else that it does. The arena's lock is an ordinary one, and
// the tracer's locks nest inside everything: no page can be fetched from the arena while one of
// them is held. Therefore a pool of pages lies between. Each hook calls trace_memory_prepare()
// before its first lock, which tops the pool up, and takes what it needs from the pool with
// trace_page_take(), which takes no lock (page_pool.h).
//
// The pool cannot run dry while there is memory: a hook takes at most kPagesPerHook pages, and
// before it begins it restores what is missing of kPagesPerHook pages for each CPU, up to
// kPagesPerHook; on each CPU one hook is under way at most (interrupts are off). Above these lie
// kSparePages, of which a hook restores one, or does what base_arena needs for it: as hooks that
// take many pages are rare, that is all that one has to do, mostly, and no hook pays for all the
// pages that the one before it took. (A hook that adds a stack may have to begin one page after
// another when others fill them first. Each of these is counted to one of the others, which have
// filled it instead of beginning one.)
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/cpu.h"
#include "store/page_pool.h"

// The most that one hook takes. An addition to a table of stacks or contexts takes a page for its
// entry or for heads: two for a program and a context, three for two stacks and their pair, and for
// either table a directory page; for a record a page of records, a segment of buckets and a
// directory; one for a kernel stack that is remembered, and two for a user stack.
inline constexpr uint32_t kPagesPerHook = 13;
// As many as an allocation takes whose stack and context are known: the last three.
inline constexpr uint32_t kSparePages = 3;

// The pool, and how many pages it should have. For trace_memory_low().
extern PagePool<size_t{kPagesPerHook} * kMaxCpus + kSparePages> trace_page_pool;
extern std::atomic<uint32_t> trace_pool_reserve;

// Once, at boot. `limit` in bytes.
void trace_memory_init(uint64_t limit);
// Fills the pool for `cpus` CPUs. What cannot be had now, hooks will ask for. Interrupts on.
void trace_memory_begin(uint32_t cpus);
// Gives the pool back. Nothing is traced any more. Interrupts on.
void trace_memory_end();

// Tops the pool up: by one page, or as far as to the spare ones, but by kPagesPerHook at most. Any
// context but NMI; no lock of a rank below kArenaTags is held.
void trace_memory_prepare();
// Whether that has anything to do.
inline bool trace_memory_low() {
  return trace_page_pool.count() < trace_pool_reserve.load(std::memory_order_relaxed);
}
// A page with undefined contents from the pool, or nullptr at the limit or without memory. Any
// context, any lock.
void* trace_page_take();
// Any page that was taken goes back to the arena. The same context as trace_memory_prepare().
void trace_page_free(void* page);
// The same, but it goes back to the pool: what a hook has taken and did not need. The same context.
void trace_page_return(void* page);

// Whole pages, in one piece, of the arena itself and within the limit. nullptr when there are none.
// The same context as trace_memory_prepare().
void* trace_block_take(size_t size);
void trace_block_free(void* block, size_t size);

// Memory of any size for dumps and sessions, from the same arena but outside the limit. nullptr
// when there is none. May sleep.
void* trace_copy_alloc(size_t size);
void trace_copy_free(void* memory, size_t size);

// Bytes, the pool included, dumps and sessions not.
uint64_t trace_memory_used();
uint64_t trace_memory_limit();
// Whether little of the limit is left, or the last page that was wanted could not be had. Any
// context.
bool trace_memory_short();
// From now on. What is in use beyond it stays.
void trace_memory_set_limit(uint64_t bytes);
