// Counts of caches, for tests.
#pragma once

#include "core/ktest.h"
#include "slab.h"

inline struct kmem_cache_stats stats_of(kmem_cache* cache) {
  struct kmem_cache_stats stats;
  kmem_cache_stats(cache, &stats);
  return stats;
}

// The live objects of the cache with this name.
inline uint64_t live_objects(const char* name) {
  kmem_cache* const cache = kmem_cache_find(name);
  EXPECT(cache);
  if (!cache) return 0;
  const uint64_t live = stats_of(cache).live;
  kmem_cache_release(cache);
  return live;
}
