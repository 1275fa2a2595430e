// Roots, and the registered providers of roots and walkers of objects.
#pragma once

#include "reach/reach.h"

namespace reach {

using Walker = void (*)(const void* object, ReachVisitor& visitor);
// The walker that is registered for the cache's objects; nullptr if there is none.
Walker find_walker(const kmem_cache* cache);

// All CPUs are stopped during each of the following functions.

// Makes all providers hide the objects that must not be scanned. Called before the search.
void hide_all(ReachVisitor& visitor);
// Shows all roots: static data, the interrupted stacks of CPUs, the kernel's page tables, the first
// stacks of CPUs, and the roots of providers.
void visit_roots(ReachVisitor& visitor);
// describe_provided() calls ReachProvider::describe of the providers one after the other, until a
// provider writes a text. meaning_provided() does the same with ReachProvider::meaning. Both
// functions return the length of the text; 0 if no provider writes one.
int describe_provided(uint64_t address, char* buffer, size_t size);
int meaning_provided(const kmem_cache* cache, const void* object, char* buffer, size_t size);

}  // namespace reach
