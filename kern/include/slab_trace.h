/* The hooks between the allocator and the tracer: the whole interface between the two. C and C++.
 *
 * slab.c calls them for a cache whose CPU-local flags have the bit, arena.cc for an arena whose
 * flags have it, inside the interrupts-off region. Off the hot path: kept out of line, in tail
 * position where possible. Frames of functions in the linker section .text.allocator are skipped in
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
/* KMC_EVER_TRACED: `object` is being freed. Called in the interrupts-off region in which the object
 * enters this CPU's magazine, or in an earlier one, so that nobody else can have the object yet.
 * Restores interrupts in the same way. */
void slab_trace_free(struct kmem_cache* cache, void* object, uint64_t saved);
/* The cache has been destroyed with `live` objects: prints what the trace knows of them. Allocates
 * nothing, waits for nothing. The caller holds a reference. */
void slab_trace_mourn(struct kmem_cache* cache, uint64_t live);
/* The first two hooks for direct callers of an arena that has the flag; `trace` is its table. */
void* arena_trace_alloc(struct trace_table* trace, void* address, size_t requested,
                        const void* frame_pointer, uint64_t saved);
void arena_trace_free(struct trace_table* trace, void* address, uint64_t saved);
/* The cache is complete and enters the list of caches, as `name`, between the two calls. If a trace
 * has been requested for this name, it runs by then; no trace starts or stops between the calls.
 * May sleep. The tracer's control lock is held between them, so the caller holds neither that lock
 * nor a sleeping lock of a lower rank. */
void slab_trace_entering(struct kmem_cache* cache, const char* name);
void slab_trace_entered(struct kmem_cache* cache);
/* The same for an arena, which has its name already. */
void arena_trace_entering(struct arena* arena, const char* name);
void arena_trace_entered(struct arena* arena);
/* The arena has been destroyed and has no references. May sleep. */
void arena_trace_destroy(struct arena* arena);
/* The cache is being destroyed; its trace table is freed with its last reference. May sleep. */
void slab_trace_destroy(struct kmem_cache* cache);

#ifdef __cplusplus
}
#endif
