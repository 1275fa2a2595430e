// Caches that #debug/alloc makes and destroys on request. Callers are serialised.
#pragma once

#include <cstddef>
#include <string_view>

#include "lib/result.h"

struct kmem_cache;

inline constexpr size_t kMaxDebugObject = 65'536;

// Makes a cache called `name`, or NAME.2 and so on if `name` is taken. Its objects have `size`
// bytes, 1 to kMaxDebugObject. EINVAL for a name that no cache can have, ENOSPC, ENOMEM. May sleep.
Result<kmem_cache*> debug_cache_make(std::string_view name, size_t size);
// True if debug_cache_make() made the cache, and the cache has not been destroyed since.
bool debug_cache_is_made(const kmem_cache* cache);
// Destroys a cache that debug_cache_make() made. May sleep.
void debug_cache_destroy(kmem_cache* cache);
