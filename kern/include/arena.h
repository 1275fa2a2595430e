/* Arenas: general allocation of intervals of integers, after Bonwick & Adams, "Magazines and Vmem"
 * (USENIX 2001). C and C++.
 *
 * The base arena hands out memory of the direct map; the page arena imports from it, with quantum
 * caches in front; others hand out virtual addresses or ids. The theory is in src/arena.cc and
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

/* Makes base_arena, of the memory base..base+size-1. Once, at boot, before anything else here. */
void arena_init(uintptr_t base, size_t size);

/* `name` is copied; a second arena or cache of one name is called NAME.2, and so on. One that
 * kmem_is_name() (slab.h) refuses panics.
 * An arena of the integers base..base+size-1, base not 0 (size 0: empty, to be filled by import or
 * arena_add) in units of `quantum` (a power of two). With a `source` it imports spans by `import`
 * and returns them by `export_` when they are free again. Requests of up to `quantum_cache_max`
 * bytes (0: none; up to 16 quanta) are served by caches of whole quanta. NULL when out of memory.
 * `flags`: KM_ATOMIC or KM_SLEEP, and KM_NOTRACE if it is not to be traced: what the tracer
 * lives on. May sleep; without KM_NOTRACE no sleeping lock of rank kTraceControl or below is
 * held. */
struct arena* arena_create(const char* name, uintptr_t base, size_t size, size_t quantum,
                           arena_import import, arena_export export_, struct arena* source,
                           size_t quantum_cache_max, int flags);
/* Nothing of it may be allocated, and nobody may allocate from it any more. The structure stays, as
 * a zombie, while somebody refers to it. May sleep. */
void arena_destroy(struct arena* arena);
/* Adds a span of whole quanta, not at 0. 0, or ENOMEM negated. Any context. */
int arena_add(struct arena* arena, uintptr_t base, size_t size, int flags);

/* For direct callers, who own what they get: the tracer sees them, and they are counted.
 *
 * `size` bytes (rounded up to the quantum) by instant fit; NULL when there are none. KM_ZERO has no
 * effect. KM_ATOMIC: any context but NMI. KM_BESTFIT or KM_NEXTFIT in `flags` asks for another
 * policy, as with arena_xalloc; quantum caches take no notice of it. */
void* arena_alloc(struct arena* arena, size_t size, int flags);
/* What arena_alloc returned (any context but NMI), with the size that was asked for; anything else
 * panics. At once where no quantum cache serves the size, or with CONFIG_SLAB_CHECK_CALLS;
 * otherwise when a magazine of that cache is emptied, unless its object has been handed out again.
 */
void arena_free(struct arena* arena, void* address, size_t size);

/* `size` bytes (rounded up to the quantum) that meet constraints, as vmem_xalloc of Bonwick &
 * Adams; never from a quantum cache.
 *
 * - address % align == phase. `align` is a power of two; below the quantum (0: no constraint) it is
 * the quantum. `phase` < `align`, whole quanta.
 * - No multiple of `nocross` (a power of two, 0: no constraint) lies within the segment.
 * - min <= address and address + size - 1 <= max, with the size rounded up (0 and UINTPTR_MAX: no
 * constraint).
 *
 * Which of the segments that would do is the policy's choice: any (instant fit), with KM_BESTFIT
 * the smallest, with KM_NEXTFIT the first after the end of the last that was allocated so, round
 * and round: for ids that must not be used again soon.
 *
 * NULL, counted as a failure, when nothing fits. What is among the arena's free segments is always
 * found. If nothing there does, a span is imported that is large enough for alignment, phase and
 * nocross; min and max are not handed on, and a span outside them goes back at once. NULL also for
 * constraints that no address can meet (nocross < size, min > max). Constraints that are wrong in
 * themselves panic: `align` or `nocross` no power of two, `phase` not below `align` or not whole
 * quanta, two policies.
 *
 * KM_ATOMIC: any context but NMI. With the arena's lock held it takes constant time for instant fit
 * without min and max where a segment is large enough wherever it begins; otherwise time in
 * proportion to the free segments, with KM_NEXTFIT to all segments. */
void* arena_xalloc(struct arena* arena, size_t size, size_t align, size_t phase, size_t nocross,
                   uintptr_t min, uintptr_t max, int flags);
/* What arena_xalloc returned (any context but NMI), with the size that was asked for; anything else
 * panics. */
void arena_xfree(struct arena* arena, void* address, size_t size);

/* From now on the arena gets what is asked of it from its source, each time, and gives it back
 * there: it adds up what its users hold, and has no segments of its own to pay for. At once after
 * arena_create, of an arena with a source and without quantum caches and constraints. */
void arena_pass_on(struct arena* arena);

/* What an allocation has to do besides now and then, memory for boundary tags or for the hash, is
 * done now if it is due: one thing at most. Not 0 if it was. Who is to be quick calls this in place
 * of allocating, when it has what it needs. Any context but NMI. */
int arena_prepare(struct arena* arena);

/* The same as arena_alloc and arena_free for those who hand on in pieces what they get: spans for
 * caches, other arenas, boundary tags. Owners are the callers of those, so nobody traces spans, and
 * they are counted apart. */
void* arena_span_alloc(struct arena* arena, size_t size, int flags);
void arena_span_free(struct arena* arena, void* address, size_t size);

struct arena_stats {
  size_t quantum;
  uint64_t total_bytes;     /* of all spans */
  uint64_t allocated_bytes; /* handed out, quantum caches' slabs included */
  uint64_t imported_bytes;
  uint64_t allocations, frees; /* ever, segments */
  uint64_t live;               /* segments handed out now */
  /* What direct callers hold, from segments or from quantum caches; without spans. Exact when the
   * arena is quiet. */
  uint64_t direct_allocations, direct_frees, direct_live, direct_bytes; /* bytes: whole quanta */
  uint64_t span_bytes;                                                  /* handed out as spans */
  uint64_t tag_bytes; /* of base_arena: pages that hold boundary tags, which are spans of it */
  uint64_t segments;  /* boundary tags in use */
  uint64_t hash_buckets, hash_items;
  uint64_t hash_bytes;        /* a span of base_arena */
  uint64_t free_segments[64]; /* on the free list of each power of two */
  uint64_t failures;
};
void arena_stats(struct arena* arena, struct arena_stats* stats);
const char* arena_name(const struct arena* arena);
size_t arena_quantum(const struct arena* arena);
struct arena* arena_source(const struct arena* arena);
/* The arena after `arena` in order of creation, with a reference; NULL for the first / after the
 * last. The reference of `arena` is given up. May sleep. */
struct arena* arena_next(struct arena* arena);
/* By name, with a reference; NULL if there is none. */
struct arena* arena_find(const char* name);
/* A held reference keeps the structure (as a zombie after destroy). Releasing may sleep. */
void arena_hold(struct arena* arena);
void arena_release(struct arena* arena);
int arena_is_zombie(const struct arena* arena);
/* Not 0 if an arena has the name, or is about to have it. Arenas and caches have their names from
 * one pool. */
int arena_name_taken(const char* name);

/* The tracer's hands on an arena. */
/* KMC_NOTRACE, KMC_TRACED, KMC_EVER_TRACED: what a cache has for each CPU, an arena has in one
 * word. An allocation or free looks at it in a section with interrupts off, which the hook is in:
 * what began before a change is over after a round through all CPUs. */
int arena_flags(const struct arena* arena);
void arena_change_flags(struct arena* arena, int set, int clear);
struct trace_table** arena_trace_slot(struct arena* arena);
/* For who keeps back what it does not need now, for later use: a trace has it as given back from
 * arena_set_aside() on, and as allocated again, by the caller, from arena_reissue() on. It goes
 * back to the arena by arena_free_set_aside(). Contexts as arena_alloc() and arena_free(). */
void arena_set_aside(struct arena* arena, void* address);
void arena_reissue(struct arena* arena, void* address, size_t size);
void arena_free_set_aside(struct arena* arena, void* address, size_t size);

extern struct arena* base_arena; /* all memory, addresses of the direct map, quantum one page */
extern struct arena* page_arena; /* imports from base_arena; quantum caches for 1..8 pages; slabs,
                                    page tables, user pages */
extern struct arena* kernel_virtual_arena; /* addresses for stacks and device memory */

#ifdef __cplusplus
}
#endif
