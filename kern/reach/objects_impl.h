// Puts the kernel's live objects into the index.
#pragma once

#include <cstdint>
#include <span>

#include "arena.h"
#include "reach/index.h"
#include "slab.h"

namespace reach {

// The cache or arena to which the objects of a run belong. Run::source is the number of a Source.
struct Source {
  kmem_cache* cache;    // nullptr: the objects were allocated directly from the arena
  struct arena* arena;  // the arena that the memory comes from
  bool listed;          // the objects are listed when they are unreached
};

// How many elements the arrays of an index need for the memory that is in use now, with a margin
// for growth.
struct Needs {
  uint64_t frames, runs, objects, sources;
};
Needs estimate();
// Fills the index with all live objects, and returns the number of sources. If `sources` has no
// room for a source, the objects of this source are left out. All other CPUs are stopped,
// interrupts off. Time is proportional to the number of slabs, free objects and pages.
uint32_t index_objects(Index& index, std::span<Source> sources);

}  // namespace reach
