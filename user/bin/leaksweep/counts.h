// Live counts of the kernel's caches and arenas, from #mem/kmemstat.
#pragma once

#include <cstdint>
#include <map>
#include <string>

struct Count {
  int64_t objects = 0;
  int64_t bytes = 0;
};
// For each cache or arena, by name: its live objects and bytes. For an arena these are only the
// allocations of its direct callers.
using Counts = std::map<std::string, Count>;

// Waits until the kernel is at rest, and counts. The allocator's own caches (slabs, magazines,
// quantum caches) are left out. std::runtime_error if the kernel does not come to rest, or its
// counts cannot be read.
Counts counts_at_rest();

// The sources that have more objects or bytes in `after` than in `before`, with the differences. A
// source that is not in `before` counts in full.
Counts rises(const Counts& before, const Counts& after);
// The entries of `some` whose names are in `others`, too.
Counts both(const Counts& some, const Counts& others);
