// Fake arenas, from which trace_memory.cc takes the tracer's own memory on the host. A test can
// make any single allocation fail.
#pragma once

#include <cstdint>

namespace trace_arena {

// Returns the number of outstanding allocations, of any size, from the arena `trace`.
uint64_t pages_out();
// Returns the number of outstanding allocations from other arenas.
uint64_t blocks_out();
// Makes one later allocation fail: number `nth`, if the next allocation has number 0. Allocations
// from all arenas are counted together.
void fail_nth(uint64_t nth);
// Returns the number of allocations, including failed ones, since the last call of fail_nth().
uint64_t allocations();

}  // namespace trace_arena
