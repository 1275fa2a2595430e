// Fake arenas, from which trace_memory.cc takes the tracer's own memory on the host. A test can
// make any single allocation fail.
#pragma once

#include <cstdint>

namespace trace_arena {

// Returns the number of allocated pages of the arena `trace`.
uint64_t pages_out();
// Returns the number of allocated blocks that come directly from the page arena.
uint64_t blocks_out();
// Makes allocation number `nth` from now on (the first is 0) fail. Pages and blocks count together.
void fail_nth(uint64_t nth);
// Returns the number of allocations, including failed ones, since the last call of fail_nth().
uint64_t allocations();

}  // namespace trace_arena
