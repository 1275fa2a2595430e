// The kernel's live objects, put into the index.
#pragma once

#include <cstdint>
#include <span>

#include "arena.h"
#include "reach/index.h"
#include "slab.h"

namespace reach {

// Whose objects the runs are; a run names it by its number.
struct Source {
  kmem_cache* cache;    // nullptr: of the arena, straight
  struct arena* arena;  // that the memory comes from
  bool listed;          // they show when they are not reached
};

// How much memory an index of what there is now needs, and some more, for what comes meanwhile.
struct Needs {
  uint64_t frames, runs, objects, sources;
};
Needs estimate();
// Fills the index with all live objects. All other CPUs are stopped, interrupts off. Time in
// proportion to slabs, free objects and pages. How many sources there are; what `sources` has no
// room for is not in the index.
uint32_t index_objects(Index& index, std::span<Source> sources);

}  // namespace reach
