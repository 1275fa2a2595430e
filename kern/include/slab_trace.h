/* The hooks between the allocator and the tracer: the whole interface between the two. C and C++.
 *
 * The comment of each alloc and free hook names a flag. slab_magazine.c calls slab_trace_alloc() or
 * slab_trace_free() if this flag is set in the CPU's copy of the cache's flags. arena.cc and
 * arena_traced.cc call arena_trace_alloc() or arena_trace_free() if this flag is set in the arena's
 * flags. The test of the flags and the call of the hook lie in one interrupts-off region. The calls
 * are off the hot path: out of line, and tail calls where possible. Backtraces skip the frames of
 * functions in the linker section .text.allocator; allocator entry points carry ALLOCATOR_TEXT.
 */
#pragma once

#ifdef __cplusplus
#include <cstddef>
#include <cstdint>
extern "C" {
#else
#include <stddef.h>
#include <stdint.h>
#endif

struct kmem_cache;
struct arena;
struct trace_table;

#ifdef STELE_HOST
#define ALLOCATOR_TEXT
#else
#define ALLOCATOR_TEXT __attribute__((section(".text.allocator")))
#endif

/* KMC_TRACED. Records that a caller who asked for `requested` bytes gets `object` (never NULL).
 * Returns `object`. Called with interrupts off. The hook itself calls slab_os_irq_restore(saved) as
 * its last step, so that the allocator keeps nothing in registers across the call. */
void* slab_trace_alloc(struct kmem_cache* cache, void* object, size_t requested,
                       const void* frame_pointer, uint64_t saved);
/* KMC_EVER_TRACED. Records that `object` is freed. Called before anybody else can get the object:
 * either in the interrupts-off region in which the object enters this CPU's magazine, or in an
 * earlier one. Ends with slab_os_irq_restore(saved), as slab_trace_alloc does. */
void slab_trace_free(struct kmem_cache* cache, void* object, uint64_t saved);
/* The cache has been destroyed with `live` objects: prints what the trace has recorded about these
 * objects. Allocates nothing, waits for nothing. The caller holds a reference. */
void slab_trace_report_live(struct kmem_cache* cache, uint64_t live);
/* KMC_TRACED and KMC_EVER_TRACED. These hooks do for an arena what slab_trace_alloc() and
 * slab_trace_free() do for a cache. They record the allocations of callers that use the arena
 * directly, not through a cache. `trace` is the arena's trace table. trace/record/ref_hooks.cc
 * calls these hooks, too, to record references. */
void* arena_trace_alloc(struct trace_table* trace, void* address, size_t requested,
                        const void* frame_pointer, uint64_t saved);
void arena_trace_free(struct trace_table* trace, void* address, uint64_t saved);
/* slab_trace_entering() is called immediately before a new cache enters the list of caches as
 * `name`, slab_trace_entered() immediately after. If a trace has been requested for this name,
 * slab_trace_entering() starts the trace. The tracer's control lock is held between the two calls,
 * so that no trace starts or stops in between. The caller holds no sleeping lock of a lower rank,
 * and does not hold the control lock. May sleep. */
void slab_trace_entering(struct kmem_cache* cache, const char* name);
void slab_trace_entered(struct kmem_cache* cache);
/* As slab_trace_entering() and slab_trace_entered(), for a new arena and the list of arenas. The
 * arena has its name already. */
void arena_trace_entering(struct arena* arena, const char* name);
void arena_trace_entered(struct arena* arena);
/* Called when the arena has been destroyed and has no references: ends its trace. May sleep. */
void arena_trace_destroy(struct arena* arena);
/* Called when the cache has been destroyed and has no references: ends its trace. The trace table
 * is freed with its last reference. May sleep. */
void slab_trace_destroy(struct kmem_cache* cache);

#ifdef __cplusplus
// The limits of .text.allocator (kernel.ld).
extern const char allocator_text_start[], allocator_text_end[];
}

// True if the return address is in a function of the allocator. Most callers lie above.
inline bool in_allocator(uint64_t return_address) {
  return return_address <= reinterpret_cast<uint64_t>(allocator_text_end) &&
         return_address > reinterpret_cast<uint64_t>(allocator_text_start);
}
// The largest number of allocator frames at the start of a stack: kmem_cache_alloc, called by
// kmalloc, called by an ObjectCache, and some spare ones.
inline constexpr uint32_t kAllocatorFrames = 6;
#endif
