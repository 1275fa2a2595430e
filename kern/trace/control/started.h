// The list of trace tables in use, for reports. A panic can walk it at any time.
#pragma once

#include "trace/control/control.h"
#include "trace/record/table.h"

// The first table, or nullptr; TraceTable::next_started points to the next one. A table is complete
// before it enters the list. Called with the control lock held, or with all other CPUs stopped.
TraceTable* trace_started_first();
// Adds a table. Called before the slot of `source` (trace_slot_of) points to the table.
void trace_started_add(TraceTable* table, TraceSource source) REQUIRES(trace_control);
// Removes a table. Called when the slot does not point to the table any more.
void trace_started_remove(TraceTable* table) REQUIRES(trace_control);
