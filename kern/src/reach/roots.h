// Roots, and the registered providers and walkers that know more of them.
#pragma once

#include "reach/reach.h"

namespace reach {

using Walker = void (*)(const void* object, ReachVisitor& visitor);
// nullptr if the cache has none.
Walker find_walker(const kmem_cache* cache);

// Hides what must not be scanned. Called before anything is marked. All CPUs are stopped, here and
// below.
void hide_all(ReachVisitor& visitor);
// Shows all roots: static data, the interrupted stacks of CPUs, and those of registered providers.
void visit_roots(ReachVisitor& visitor);
// Ask each provider in turn, as ReachProvider's members of these names.
int describe_provided(uint64_t address, char* buffer, size_t size);
int meaning_provided(const kmem_cache* cache, const void* object, char* buffer, size_t size);

}  // namespace reach
