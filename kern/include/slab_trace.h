/* The hooks between the allocator and the tracer: the whole interface between the two. C and C++.
 *
 * slab.c calls slab_trace_alloc() and slab_trace_free() if the CPU's copy of the cache's flags has
 * the bit that the function's comment names. arena.cc calls arena_trace_alloc() and
 * arena_trace_free() if the arena's flags have that bit. Both files test the flags and call the
 * hook in one interrupts-off region. The calls are off the hot path: out of line, and tail calls
 * where possible. Frames of functions in the linker section .text.allocator are skipped in
 * backtraces; allocator entry points carry ALLOCATOR_TEXT.
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

/* KMC_TRACED: a caller who asked for `requested` bytes gets `object` (never NULL). Returns
 * `object`. Interrupts are off; the hook itself ends with slab_os_irq_restore(saved), so that the
 * allocator keeps nothing in registers across the call. */
void* slab_trace_alloc(struct kmem_cache* cache, void* object, size_t requested,
                       const void* frame_pointer, uint64_t saved);
/* KMC_EVER_TRACED: `object` is being freed. Called before anybody else can have the object: in the
 * interrupts-off region in which it enters this CPU's magazine, or earlier in an interrupts-off
 * region of its own. Ends with slab_os_irq_restore(saved), as slab_trace_alloc does. */
void slab_trace_free(struct kmem_cache* cache, void* object, uint64_t saved);
/* The cache has been destroyed with `live` objects: prints what the trace has recorded about these
 * objects. Allocates nothing, waits for nothing. The caller holds a reference. */
void slab_trace_mourn(struct kmem_cache* cache, uint64_t live);
/* The hooks for an arena's direct callers. They are called as slab_trace_alloc and slab_trace_free
 * are, for the same bits of the arena's flags. `trace` is the arena's trace table. */
void* arena_trace_alloc(struct trace_table* trace, void* address, size_t requested,
                        const void* frame_pointer, uint64_t saved);
void arena_trace_free(struct trace_table* trace, void* address, uint64_t saved);
/* Called immediately before and after a new cache enters the list of caches as `name`. If a trace
 * has been requested for this name, the first call starts it. The tracer's control lock is held
 * between the two calls, so no trace starts or stops then. The caller holds neither that lock nor a
 * sleeping lock of a lower rank. May sleep. */
void slab_trace_entering(struct kmem_cache* cache, const char* name);
void slab_trace_entered(struct kmem_cache* cache);
/* Called immediately before and after a new arena, which has its name already, enters the list of
 * arenas. The rest of slab_trace_entering's comment applies here, too. */
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

// True if the return address is in a function of the allocator.
inline bool in_allocator(uint64_t return_address) {
  return return_address > reinterpret_cast<uint64_t>(allocator_text_start) &&
         return_address <= reinterpret_cast<uint64_t>(allocator_text_end);
}
// The largest number of allocator frames at the start of a stack: kmem_cache_alloc, called by
// kmalloc, called by an ObjectCache, and some spare ones.
inline constexpr uint32_t kAllocatorFrames = 6;
#endif
