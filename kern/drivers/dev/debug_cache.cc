#ifdef CONFIG_DEBUG_DEVICE

#include "drivers/dev/debug_cache.h"

#include <algorithm>
#include <iterator>

#include "core/errstr.h"
#include "lib/quoted.h"
#include "slab.h"

namespace {

constinit kmem_cache* made[1000] = {};

}  // namespace

Result<kmem_cache*> debug_cache_make(std::string_view name, size_t size) {
  char terminated[KMEM_CACHE_NAME_MAX] = {};
  if (name.size() < sizeof(terminated)) name.copy(terminated, name.size());
  if (!kmem_is_name(terminated))
    return fail(Errno::EINVAL, "\"%s\" is not a valid name for a cache", Quoted(name).get());
  kmem_cache** const place = std::find(std::begin(made), std::end(made), nullptr);
  if (place == std::end(made))
    return fail(Errno::ENOSPC, "%zu caches have been made: destroy some first", std::size(made));
  *place = kmem_cache_create(terminated, size, 0, 0, nullptr, nullptr, nullptr, nullptr);
  if (!*place) return fail(Errno::ENOMEM, "no memory for the cache %s", terminated);
  return *place;
}

bool debug_cache_is_made(const kmem_cache* cache) {
  return cache && std::find(std::begin(made), std::end(made), cache) != std::end(made);
}

void debug_cache_destroy(kmem_cache* cache) {
  *std::find(std::begin(made), std::end(made), cache) = nullptr;
  kmem_cache_destroy(cache);
}

#endif  // CONFIG_DEBUG_DEVICE
