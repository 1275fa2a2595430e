// The slow path of a free's hook.
#pragma once

#include <cstdint>

#include "trace/record/table.h"

// Removes the record of an object, wherever it is; counts by which stack it was freed, if the trace
// counts that. Then restores interrupts to `saved`. Called by a jump at the end of a hook, so that
// its own frame is the first one of the stack.
void trace_free_slowly(TraceTable* table, const void* object, uint64_t saved);
