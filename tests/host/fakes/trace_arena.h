// Arenas for the tracer's own page memory (trace_memory.cc) on the host, with failures injected
// into each allocation in turn.
#pragma once

#include <cstdint>

namespace trace_arena {

// Pages of the arena `trace` that are out.
uint64_t pages_out();
// Blocks straight from the page arena that are out.
uint64_t blocks_out();
// From now on allocation number `nth` (from 0) fails, of pages and blocks counted together.
void fail_nth(uint64_t nth);
// Allocations, with those that failed, since the last call of fail_nth().
uint64_t allocations();

}  // namespace trace_arena
