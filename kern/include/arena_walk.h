// A walk over the segments of all arenas, and what an address is to them, for who looks at memory
// as a whole while nothing changes: the rules are those of slab_walk.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "slab.h"

struct arena;

// The arena after `arena` in order of creation, so after its source; nullptr for the first / after
// the last.
arena* arena_walk_next(arena* arena);
// Whether what it hands out is memory, addresses of the direct map.
bool arena_walk_is_memory(const arena* arena);
// Whether what it hands out is the tracer's and nobody else's business: KM_NOTRACE.
bool arena_walk_is_private(const arena* arena);

struct ArenaWalk {
  // A span that the arena has imported: what its source has handed out, and is nobody else's.
  virtual void span(uint64_t base, size_t size) = 0;
  // A segment that is handed out: to a direct caller, or as a span, of a cache or another arena.
  virtual void segment(uint64_t base, size_t size) = 0;

 protected:
  ~ArenaWalk() = default;
};
// Time in proportion to the boundary tags.
void arena_walk(const arena* arena, ArenaWalk& walk);

// The segment, no span, that an address lies in: any number.
struct ArenaSegment {
  uint64_t start, size;  // size 0: there is none
  bool free;
};
ArenaSegment arena_locate(const arena* arena, uint64_t address);
// Its quantum caches, `number` from 0 on; nullptr after the last.
kmem_cache* arena_walk_quantum_cache(const arena* arena, unsigned number);
// Whether all that it hands out is its source's, and its own account knows nothing of it.
bool arena_walk_passes_on(const arena* arena);
// Whether boundary tags lie in the segment. Time in proportion to those of all arenas.
bool arena_walk_holds_tags(const ArenaSegment& segment);
