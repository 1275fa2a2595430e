// A walk over the segments of all arenas, for who looks at memory as a whole while nothing changes:
// the rules are those of slab_walk.h.
#pragma once

#include <cstddef>
#include <cstdint>

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
