/* Arenas: general allocation of intervals of integers, after Bonwick & Adams, "Magazines and Vmem"
 * (USENIX 2001). C and C++.
 *
 * The base arena hands out memory of the direct map; the page arena imports from it and has quantum
 * caches; others hand out virtual addresses or ids. The theory is in src/arena.cc and
 * src/arena_xalloc.cc.
 */
#pragma once

#include "slab_os.h"

#ifdef __cplusplus
extern "C" {
#endif

struct arena;
struct trace_table;

typedef void* (*arena_import)(struct arena* source, size_t size, int flags);
typedef void (*arena_export)(struct arena* source, void* base, size_t size);

enum { ARENA_NAME_MAX = 32 };

/* Makes base_arena from the memory base..base+size-1. Once, at boot, before all other functions of
 * this file. */
void arena_init(uintptr_t base, size_t size);

/* Makes an arena of the integers base..base+size-1, base not 0 (size 0: empty, filled by import or
 * arena_add), in units of `quantum` (a power of two). With a `source`, the arena imports spans with
 * `import` and returns each with `export_` when all of it is free again. Quantum caches serve
 * requests of up to `quantum_cache_max` bytes (0: no such caches; at most 16 quanta).
 *
 * `name` is copied; a second arena or cache of the same name is called NAME.2, and so on. A name
 * that kmem_is_name() (slab.h) refuses panics. `flags`: KM_ATOMIC or KM_SLEEP, and KM_NOTRACE for
 * the tracer's own arenas, which cannot be traced. NULL when out of memory. May sleep; without
 * KM_NOTRACE the caller holds no sleeping lock of rank kTraceControl or below. */
struct arena* arena_create(const char* name, uintptr_t base, size_t size, size_t quantum,
                           arena_import import, arena_export export_, struct arena* source,
                           size_t quantum_cache_max, int flags);
/* Destroys an arena that has no allocations and no users any more. The structure stays, as a
 * zombie, until its last reference is released. May sleep. */
void arena_destroy(struct arena* arena);
/* Adds a span of whole quanta; `base` is not 0. Returns 0 or -ENOMEM. Any context. */
int arena_add(struct arena* arena, uintptr_t base, size_t size, int flags);

/* Allocation by direct callers, who own the result. These allocations are counted, and traced.
 *
 * `size` bytes (rounded up to the quantum) by instant fit; NULL when no segment is large enough.
 * KM_ZERO has no effect. KM_ATOMIC: any context but NMI. KM_BESTFIT or KM_NEXTFIT in `flags`
 * selects another policy, as with arena_xalloc; quantum caches ignore it. */
void* arena_alloc(struct arena* arena, size_t size, int flags);
/* Frees an address that arena_alloc returned, with the requested size; anything else panics. The
 * panic is immediate if no quantum cache serves the size, or with CONFIG_SLAB_CHECK_CALLS;
 * otherwise it comes when the magazine with the object is emptied, unless the object has been
 * allocated again by then. Any context but NMI. */
void arena_free(struct arena* arena, void* address, size_t size);

/* Allocates `size` bytes (rounded up to the quantum) under constraints, as vmem_xalloc of Bonwick &
 * Adams; never from a quantum cache.
 *
 * - address % align == phase. `align` is a power of two; values below the quantum, and 0, mean the
 *   quantum. `phase` < `align`, whole quanta.
 * - The segment does not cross a multiple of `nocross` (a power of two, 0: no constraint).
 * - min <= address and address + size - 1 <= max, with the size rounded up (0 and UINTPTR_MAX: no
 *   constraint).
 *
 * The policy chooses among the free segments that fit: any (instant fit); with KM_BESTFIT the
 * smallest; with KM_NEXTFIT the next one after the end of the last KM_NEXTFIT allocation,
 * cyclically, for ids that must not be reused soon.
 *
 * If no free segment fits, imports a span that is large enough for alignment, phase and nocross.
 * min and max do not affect the import: an imported span without a segment between min and max is
 * returned at once. Returns NULL, counted as a failure, when nothing fits, also for constraints
 * that no address can meet (nocross < size, min > max). Invalid constraints panic: `align` or
 * `nocross` no power of two, `phase` not below `align` or not whole quanta, two policies.
 *
 * KM_ATOMIC: any context but NMI. The arena's lock is held for constant time if the policy is
 * instant fit, there is no min or max, and a free segment is large enough for every possible start
 * address. Otherwise the time is proportional to the number of free segments; with KM_NEXTFIT, to
 * the number of all segments. */
void* arena_xalloc(struct arena* arena, size_t size, size_t align, size_t phase, size_t nocross,
                   uintptr_t min, uintptr_t max, int flags);
/* Frees an address that arena_xalloc returned, with the requested size; anything else panics. Any
 * context but NMI. */
void arena_xfree(struct arena* arena, void* address, size_t size);

/* Makes the arena forward each allocation and free to its source. Such an arena counts the bytes
 * that its users hold, but has no segments and supports no constraints. Called right after
 * arena_create, for an arena with a source and without quantum caches. */
void arena_pass_on(struct arena* arena);

/* Does one step of work that a later allocation would have to do in addition: getting memory for
 * boundary tags, or for the hash. Returns not 0 after a step, 0 if none is due. A caller that must
 * be quick calls this function instead of allocating, as long as it has enough memory. Any context
 * but NMI. */
int arena_prepare(struct arena* arena);

/* As arena_alloc and arena_free, for callers who divide the result: spans for caches, other arenas,
 * boundary tags. Each part has its own owner, so spans are not traced, and are counted
 * separately. */
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
  uint64_t tag_bytes;  /* for base_arena: bytes of its spans that hold boundary tags */
  uint64_t segments;   /* boundary tags in use */
  uint64_t hash_buckets, hash_items; /* buckets and entries of the hash of allocated segments */
  uint64_t hash_bytes;               /* bytes of the hash, a span of base_arena */
  uint64_t free_segments[64];        /* [i]: free segments of 2^i to 2^(i+1) - 1 quanta */
  uint64_t failures;                 /* allocations that returned NULL */
};
void arena_stats(struct arena* arena, struct arena_stats* stats);
const char* arena_name(const struct arena* arena);
size_t arena_quantum(const struct arena* arena);
struct arena* arena_source(const struct arena* arena);
/* Returns the arena after `arena` in order of creation, and takes a reference to the returned
 * arena. `arena` NULL: returns the first arena; after the last returns NULL. Releases the caller's
 * reference to `arena`. May sleep. */
struct arena* arena_next(struct arena* arena);
/* Finds an arena by name, and takes a reference. NULL if there is none. */
struct arena* arena_find(const char* name);
/* A reference keeps the structure in memory (as a zombie after arena_destroy). Releasing may
 * sleep. */
void arena_hold(struct arena* arena);
void arena_release(struct arena* arena);
int arena_is_zombie(const struct arena* arena);
/* Not 0 if an arena has the name, or is about to have it. Names are unique among arenas and caches
 * together. */
int arena_name_taken(const char* name);

/* For the tracer. */
/* KMC_NOTRACE, KMC_TRACED, KMC_EVER_TRACED: an arena has one word of flags, whereas a cache has a
 * copy for each CPU. An allocation or free tests the flags and calls the hook in one interrupts-off
 * region: after an interprocessor interrupt to all CPUs, no operation with the old flags is under
 * way. */
int arena_flags(const struct arena* arena);
void arena_change_flags(struct arena* arena, int set, int clear);
struct trace_table** arena_trace_slot(struct arena* arena);
/* For callers who keep unused memory of an arena for later use. A trace counts the memory as freed
 * from arena_set_aside() on. From arena_reissue() on it counts the memory as allocated by the
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
