// Finds where traced references lie: references that were taken while their kind was traced.
#pragma once

#include "trace/dump/ref_places.h"

namespace reach {

// Stops all CPUs and searches memory for the references of the kind `of`, or of all kinds if `of`
// is nullptr. reach_init() registers this function as the RefFinder (trace/dump/ref_places.h).
Result<void> find_references(RefPlaces& places, const RefClass* of);

}  // namespace reach
