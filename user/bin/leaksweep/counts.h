// Live counts of the kernel's caches, arenas and classes of references, from #mem/kmemstat.
#pragma once

#include <cstdint>
#include <map>
#include <string>

struct Count {
  int64_t objects = 0;
  int64_t bytes = 0;
};
// The live objects and bytes of each cache, arena and class of references, by name. For an arena,
// only direct allocations count, not the memory that caches and other arenas take from it.
using Counts = std::map<std::string, Count>;

// Waits until the kernel is at rest, then counts. The allocator's own caches (slabs, magazines,
// quantum caches) are left out. Throws std::runtime_error if the kernel does not come to rest or
// the counts cannot be read.
Counts counts_at_rest();

// Returns the names that have more objects or bytes in `after` than in `before`, with the
// differences. A name that is missing in `before` had no objects.
Counts rises(const Counts& before, const Counts& after);
// Returns the entries of `some` whose names are also in `others`.
Counts both(const Counts& some, const Counts& others);
