// Where the references lie that somebody took while their kind was traced.
#pragma once

#include "trace/dump/ref_places.h"

namespace reach {

// Stops all CPUs and looks: a RefFinder.
Result<void> find_references(RefPlaces& places, const RefClass* of);

}  // namespace reach
