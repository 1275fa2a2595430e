// What is live in the kernel's caches and arenas, from #mem/kmemstat.
#pragma once

#include <cstdint>
#include <map>
#include <string>

struct Count {
  int64_t objects = 0;
  int64_t bytes = 0;
};
// By the name of the cache or arena. Of an arena what its direct callers have.
using Counts = std::map<std::string, Count>;

// Lets the kernel come to rest and counts. What the allocator keeps for itself (slabs, magazines,
// quantum caches) is left out. std::runtime_error if the kernel does not come to rest or cannot be
// read.
Counts counts_at_rest();

// What has more objects, or more bytes, in `after`, and how many more. What has come since is there
// whole.
Counts rises(const Counts& before, const Counts& after);
// Those of `some` that are in `others` too, with the numbers of `some`.
Counts both(const Counts& some, const Counts& others);
