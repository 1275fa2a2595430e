// Finds where references lie that were taken while their class was traced.
#pragma once

#include "trace/dump/ref_places.h"

namespace reach {

// Stops all CPUs and searches: a RefFinder.
Result<void> find_references(RefPlaces& places, const RefClass* of);

}  // namespace reach
