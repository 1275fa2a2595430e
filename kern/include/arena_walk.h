// Functions that walk over the segments of all arenas, and that find the segment of an address.
// They are called while all other CPUs are stopped, under the rules of slab_walk.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "slab.h"

struct arena;

// Returns the arena after `arena` in order of creation, so an arena comes after its parent. Returns
// the first arena if `arena` is nullptr, and nullptr after the last arena.
arena* arena_walk_next(arena* arena);
// True if the arena hands out memory: addresses of the direct map.
bool arena_walk_is_memory(const arena* arena);
// True if the arena was created with KM_NOTRACE, so that it cannot be traced.
bool arena_walk_is_private(const arena* arena);

struct ArenaWalk {
  // A span that the arena has imported from its parent.
  virtual void span(uint64_t base, size_t size) = 0;
  // A segment that the arena has handed out. A caller of arena_alloc owns the segment, or a caller
  // of arena_span_alloc divides it among others.
  virtual void segment(uint64_t base, size_t size) = 0;

 protected:
  ~ArenaWalk() = default;
};
// Time is proportional to the number of the arena's boundary tags.
void arena_walk(const arena* arena, ArenaWalk& walk);

// Finds the segment that contains `address`. `address` may be any number.
struct ArenaSegment {
  uint64_t start, size;  // bytes; size 0: no segment contains the address
  bool free;
};
ArenaSegment arena_locate(const arena* arena, uint64_t address);
// Returns the arena's quantum cache with this number, from 0 on; nullptr after the last.
kmem_cache* arena_walk_quantum_cache(const arena* arena, unsigned number);
// True if the arena forwards to its parent (arena_forward) and so has no segments.
bool arena_walk_forwards(const arena* arena);
// True if the segment holds boundary tags. Time is proportional to the tags of all arenas.
bool arena_walk_holds_tags(const ArenaSegment& segment);
