/* The hooks between the allocator and the tracer: all that either knows of the other. C and C++.
 *
 * slab.c calls them for a cache whose CPU-local flags have the bit, arena.cc for an arena whose
 * flags have it, inside the section in which interrupts are off. Off the hot path: kept out of
 * line, in tail position where possible. Frames of functions in the linker section .text.allocator
 * are skipped in backtraces; allocator entry points carry ALLOCATOR_TEXT.
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

/* KMC_TRACED: `object` (never NULL) is being given to a caller who asked for `requested` bytes.
 * Returns `object`. Interrupts are off; as its last act it gives `saved` to slab_os_irq_restore(),
 * so that nothing need be kept for afterwards. */
void* slab_trace_alloc(struct kmem_cache* cache, void* object, size_t requested,
                       const void* frame_pointer, uint64_t saved);
/* KMC_EVER_TRACED: `object` is being given back; called in the section in which it enters this
 * CPU's magazine, or before one, so that nobody else can have it yet. Ends the section in the same
 * way. */
void slab_trace_free(struct kmem_cache* cache, void* object, uint64_t saved);
/* The cache has been destroyed with `live` objects: prints what is known of them. Allocates
 * nothing, waits for nothing. The caller holds a reference. */
void slab_trace_mourn(struct kmem_cache* cache, uint64_t live);
/* The same for what direct callers have from an arena that has the flag; `trace` is its table. */
void* arena_trace_alloc(struct trace_table* trace, void* address, size_t requested,
                        const void* frame_pointer, uint64_t saved);
void arena_trace_free(struct trace_table* trace, void* address, uint64_t saved);
/* The cache, which is to be called `name`, is whole but for its place in the list of caches, and
 * comes into it between the two: it is traced by then if that has been asked for, and no trace is
 * started or stopped meanwhile. May sleep; takes the tracer's control lock, so no sleeping lock of
 * a lower rank is held, nor that one itself. */
void slab_trace_entering(struct kmem_cache* cache, const char* name);
void slab_trace_entered(struct kmem_cache* cache);
/* The same for an arena, which has its name already. */
void arena_trace_entering(struct arena* arena, const char* name);
void arena_trace_entered(struct arena* arena);
/* The arena has been destroyed and nobody refers to it. May sleep. */
void arena_trace_destroy(struct arena* arena);
/* The cache is being destroyed; its trace table goes when nobody refers to it. May sleep. */
void slab_trace_destroy(struct kmem_cache* cache);

#ifdef __cplusplus
}
#endif
