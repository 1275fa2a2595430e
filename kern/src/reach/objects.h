// Puts the kernel's live objects into the index.
#pragma once

#include <cstdint>
#include <span>

#include "arena.h"
#include "reach/index.h"
#include "slab.h"

namespace reach {

// The owner of the objects of a run, which names it by its number.
struct Source {
  kmem_cache* cache;    // nullptr: allocated directly from the arena
  struct arena* arena;  // source of the memory
  bool listed;          // listed when unreached
};

// The size of an index of what exists now, with a margin for growth.
struct Needs {
  uint64_t frames, runs, objects, sources;
};
Needs estimate();
// Fills the index with all live objects, and returns the number of sources. Objects of sources for
// which `sources` has no room are left out. All other CPUs are stopped, interrupts off. Time in
// proportion to slabs, free objects and pages.
uint32_t index_objects(Index& index, std::span<Source> sources);

}  // namespace reach
