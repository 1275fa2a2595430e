// Live counts of the kernel's caches and arenas, from #mem/kmemstat.
#pragma once

#include <cstdint>
#include <map>
#include <string>

struct Count {
  int64_t objects = 0;
  int64_t bytes = 0;
};
// By the name of the cache or arena. For an arena, the counts of its direct callers.
using Counts = std::map<std::string, Count>;

// Lets the kernel come to rest and counts. The allocator's own caches (slabs, magazines, quantum
// caches) are left out. std::runtime_error if the kernel does not come to rest or cannot be read.
Counts counts_at_rest();

// The sources with more objects, or more bytes, in `after`, and the difference. A later source
// counts in full.
Counts rises(const Counts& before, const Counts& after);
// Those of `some` that are in `others` too, with the numbers of `some`.
Counts both(const Counts& some, const Counts& others);
