// Roots, and who knows of more of them.
#pragma once

#include "reach/reach.h"

namespace reach {

using Walker = void (*)(const void* object, ReachVisitor& visitor);
// nullptr if the cache has none.
Walker find_walker(const kmem_cache* cache);

// Hides what is not to be looked into. All CPUs are stopped, here and below; before anything is
// marked.
void hide_all(ReachVisitor& visitor);
// Shows all roots: static data, the stacks of what CPUs were stopped in, and what has registered.
void visit_roots(ReachVisitor& visitor);
// The words of whoever knows them, as ReachProvider's.
int describe_provided(uint64_t address, char* buffer, size_t size);
int meaning_provided(const kmem_cache* cache, const void* object, char* buffer, size_t size);

}  // namespace reach
