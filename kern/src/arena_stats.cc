// Statistics of an arena: all its segments, and the memory that direct callers hold. A direct
// caller allocates for itself; caches and other arenas, which import spans to divide them, are not
// direct callers.
#include "arena_impl.h"
#include "core/spinlock.h"
#include "linear_hash.h"
#include "slab.h"

using arena_impl::kFreeLists;

namespace {

uint64_t count_of(const uint64_t& counter) {
  return __atomic_load_n(&counter, __ATOMIC_RELAXED);
}

uint64_t difference(uint64_t all, uint64_t part) {
  return all > part ? all - part : 0;
}

// Reads a quantum cache's statistics. False if there is no such cache, or if arena_destroy has
// begun to destroy the caches. References keep the arena's structure in memory after that.
// arena_destroy first waits until no CPU reads a quantum cache. A reader keeps interrupts off, so
// this wait is short.
bool look_at_quantum_cache(struct arena& arena, kmem_cache* cache, struct kmem_cache_stats* stats) {
  InterruptsOff off;  // bound: one cache's statistics, which sum one entry for each CPU
  __atomic_fetch_add(&arena.lookers, 1, __ATOMIC_SEQ_CST);
  const bool looks = cache && !arena_is_zombie(&arena);
  if (looks) kmem_cache_stats(cache, stats);
  __atomic_fetch_sub(&arena.lookers, 1, __ATOMIC_SEQ_CST);
  return looks;
}

// Computes what direct callers hold: the arena's allocated segments plus the live objects of its
// quantum caches, minus the spans that caches and other arenas have imported from this arena. Slabs
// of the quantum caches are such spans, too.
void direct_stats(struct arena& arena, struct arena_stats& stats) {
  const uint64_t span_frees = count_of(arena.span_frees),
                 span_allocations = count_of(arena.span_allocations);
  stats.span_bytes = count_of(arena.span_bytes);
  stats.direct_allocations = stats.allocations;
  stats.direct_frees = stats.frees;
  stats.direct_bytes = stats.allocated_bytes;
  for (kmem_cache* cache : arena.quantum_caches) {
    struct kmem_cache_stats cached;
    if (!look_at_quantum_cache(arena, cache, &cached)) break;
    stats.direct_allocations += cached.allocations;
    stats.direct_frees += cached.frees;
    stats.direct_bytes += cached.live * cached.object_size;
  }
  stats.direct_allocations = difference(stats.direct_allocations, span_allocations);
  stats.direct_frees = difference(stats.direct_frees, span_frees);
  stats.direct_live = difference(stats.direct_allocations, stats.direct_frees);
  stats.direct_bytes = difference(stats.direct_bytes, stats.span_bytes);
}

void segment_stats(struct arena* arena, struct arena_stats* stats) {
  Guard guard(arena->lock());
  stats->quantum = arena->quantum;
  stats->total_bytes = arena->total_bytes;
  stats->allocated_bytes = arena->allocated_bytes;
  stats->imported_bytes = arena->imported_bytes;
  stats->allocations = arena->allocations;
  stats->frees = arena->frees;
  stats->live = arena->live;
  stats->segments = arena->tags;
  stats->hash_buckets = arena->hash.buckets;
  stats->hash_items = arena->hash.items;
  stats->hash_bytes = linear_hash_bytes(&arena->hash);
  stats->failures = arena->failures;
}

}  // namespace

void arena_stats(struct arena* arena, struct arena_stats* stats) {
  *stats = {};
  segment_stats(arena, stats);
  direct_stats(*arena, *stats);
  if (arena == base_arena) stats->tag_bytes = arena_impl::tag_bytes();
}

uint64_t arena_free_segments(struct arena* arena, unsigned power) {
  Guard guard(arena->lock());
  return arena->free_segments[power];
}
