/* Arenas: general allocation of intervals of integers, after Bonwick & Adams, "Magazines and Vmem"
 * (USENIX 2001). C and C++.
 *
 * The base arena hands out memory of the direct map; the page arena imports from it and has quantum
 * caches; others hand out virtual addresses or ids. The theory is in src/arena.cc.
 */
#pragma once

#include "slab_os.h"

#ifdef __cplusplus
extern "C" {
#endif

struct arena;
struct trace_table;

typedef void* (*arena_import)(struct arena* parent, size_t size, int flags);
typedef void (*arena_export)(struct arena* parent, void* base, size_t size);

enum { ARENA_NAME_MAX = 32 };

/* Makes base_arena from the memory base..base+size-1. Once, at boot, before all other functions of
 * this file. */
void arena_init(uintptr_t base, size_t size);

/* Makes an arena of the integers base..base+size-1, in units of `quantum`, a power of two. `base`
 * is not 0. With size 0 the arena begins empty; arena_add or imports give it spans. If there is a
 * `parent`, the arena imports spans from the parent with `import`, and returns a span with
 * `export_` when the whole span is free again. Quantum caches serve requests of up to
 * `quantum_cache_max` bytes. `quantum_cache_max` is a multiple of the quantum, and at most 16
 * quanta; 0: the arena has no quantum caches.
 *
 * `name` is copied; a second arena or cache of the same name is called NAME.2, and so on. Panics if
 * kmem_is_name() (slab.h) rejects the name. `flags` is KM_ATOMIC or KM_SLEEP, with KM_NOTRACE for
 * an arena that cannot be traced, such as the tracer's own. Returns NULL when out of memory. May
 * sleep. Without KM_NOTRACE, the caller holds no sleeping lock of rank kTraceControl or below. */
struct arena* arena_create(const char* name, uintptr_t base, size_t size, size_t quantum,
                           arena_import import, arena_export export_, struct arena* parent,
                           size_t quantum_cache_max, int flags);
/* Destroys an arena that has no allocations and no users any more. The structure stays, as a
 * zombie, until its last reference is released. May sleep. */
void arena_destroy(struct arena* arena);
/* Adds a span of whole quanta; `base` is not 0. Returns 0 or -ENOMEM. Any context. */
int arena_add(struct arena* arena, uintptr_t base, size_t size, int flags);

/* Allocates `size` bytes, rounded up to the quantum, by instant fit. The caller owns the result and
 * is called a direct caller. The arena counts the allocation in direct_allocations, and a trace can
 * record the allocation. A caller that divides memory among others calls arena_span_alloc instead.
 *
 * Returns NULL when no segment is large enough. KM_ZERO has no effect. With KM_ATOMIC: any context
 * but NMI. */
void* arena_alloc(struct arena* arena, size_t size, int flags);
/* Frees an address that arena_alloc returned; `size` is the requested size. A wrong address or size
 * panics at once with CONFIG_SLAB_CHECK_CALLS, and for sizes that no quantum cache serves. In other
 * cases the panic comes when the magazine with the object is emptied. If the object is allocated
 * again before that, there is no panic. Any context but NMI. */
void arena_free(struct arena* arena, void* address, size_t size);

/* Makes the arena forward each allocation and free to its parent. A forwarding arena counts the
 * bytes that its users hold, but has no segments. Called right after arena_create. The arena must
 * have a parent, and must have no quantum caches. */
void arena_forward(struct arena* arena);

/* Does one step of work that a later allocation would otherwise have to do: gets memory for
 * boundary tags, or enlarges the hash. Returns 1 after a step, 0 if there is nothing to do. A
 * caller that must be quick, and still has memory in reserve, calls this function first. If the
 * result is 1, the caller puts its allocation off until its next call. Any context but NMI. */
int arena_prepare(struct arena* arena);

/* Like arena_alloc and arena_free, but for memory that the allocator uses itself: slabs of caches,
 * imports of other arenas, hashes. Such memory is called a span. Pages of boundary tags count as
 * spans, too. Spans are not traced, because the objects and segments in a span have their own
 * owners. Spans are counted separately. */
void* arena_span_alloc(struct arena* arena, size_t size, int flags);
void arena_span_free(struct arena* arena, void* address, size_t size);

struct arena_stats {
  size_t quantum;
  uint64_t total_bytes;     /* bytes of all spans */
  uint64_t allocated_bytes; /* bytes handed out, including slabs of quantum caches */
  uint64_t imported_bytes;
  uint64_t allocations, frees; /* segments allocated and freed, ever */
  uint64_t live;               /* segments handed out now */
  /* Allocations of direct callers, from segments or from quantum caches; spans are not counted.
   * Exact when the arena is quiet. */
  uint64_t direct_allocations, direct_frees, direct_live, direct_bytes; /* bytes: whole quanta */
  uint64_t span_bytes; /* bytes handed out as spans */
  uint64_t tag_bytes;  /* of span_bytes, the bytes with boundary tags; 0 except in base_arena */
  uint64_t segments;   /* boundary tags in use */
  uint64_t hash_buckets, hash_items; /* buckets and entries of the hash of allocated segments */
  uint64_t hash_bytes;               /* bytes of the hash, a span of base_arena */
  uint64_t failures;                 /* allocations that returned NULL */
};
void arena_stats(struct arena* arena, struct arena_stats* stats);
/* Returns the number of free segments of 2^power to 2^(power+1) - 1 quanta; `power` is less than
 * ARENA_FREE_LISTS. */
#define ARENA_FREE_LISTS 64
uint64_t arena_free_segments(struct arena* arena, unsigned power);
const char* arena_name(const struct arena* arena);
size_t arena_quantum(const struct arena* arena);
struct arena* arena_parent(const struct arena* arena);
/* Returns the arena after `arena` in order of creation: the first arena if `arena` is NULL, and
 * NULL after the last arena. Takes a reference to the returned arena, and releases the caller's
 * reference to `arena`. May sleep. */
struct arena* arena_next(struct arena* arena);
/* Finds an arena by name, and takes a reference. NULL if there is none. */
struct arena* arena_find(const char* name);
/* arena_hold takes a reference, arena_release releases one and may sleep. A reference keeps the
 * structure in memory, after arena_destroy as a zombie. */
void arena_hold(struct arena* arena);
void arena_release(struct arena* arena);
int arena_is_zombie(const struct arena* arena);
/* Not 0 if an arena has the name, or is about to have it. Names are unique among arenas and caches
 * together. */
int arena_name_taken(const char* name);

/* For the tracer. */
/* The arena's flags: KMC_NOTRACE, KMC_TRACED, KMC_EVER_TRACED. An arena has one word of flags; a
 * cache has a copy for each CPU. An allocation or free tests the flags and calls the hook in one
 * interrupts-off region. So after a change of the flags and an interprocessor interrupt to all
 * CPUs, no operation with the old flags is under way. */
int arena_flags(const struct arena* arena);
void arena_change_flags(struct arena* arena, int set, int clear);
struct trace_table** arena_trace_slot(struct arena* arena);
/* For callers that keep unused memory of an arena for later use. After arena_set_aside(), a trace
 * counts the memory as freed. After arena_reissue(), a trace counts the memory as allocated by the
 * caller of arena_reissue(). arena_free_set_aside() returns the memory to the arena. Any context
 * but NMI. */
void arena_set_aside(struct arena* arena, void* address);
void arena_reissue(struct arena* arena, void* address, size_t size);
void arena_free_set_aside(struct arena* arena, void* address, size_t size);

extern struct arena* base_arena; /* all memory, addresses of the direct map, quantum one page */
extern struct arena* page_arena; /* imports from base_arena; quantum caches for 1..8 pages; used for
                                    slabs, page tables, user pages */
extern struct arena* kernel_virtual_arena; /* addresses for stacks and device memory */

#ifdef __cplusplus
}
#endif
