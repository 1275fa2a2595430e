// The word failnext of #debug/alloc.
#pragma once

#include <cstdint>

#include "lib/result.h"

// After `after` more, the next `count` allocations of the current task fail; 0 ends that. EBUSY if
// somebody else makes allocations fail. May sleep.
Result<void> debug_fail_next(uint64_t count, uint64_t after);
void debug_failnext_init();
