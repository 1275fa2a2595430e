// The list of trace tables in use, for reports. A panic can walk it at any time.
#pragma once

#include "trace/control.h"
#include "trace/trace_table.h"

// The first table, or nullptr; TraceTable::next_started points to the next one. Tables in the list
// are complete. Called with the control lock held, or with all other CPUs stopped.
TraceTable* trace_started_first();
// Add and remove a table: called before the slot of `source` gets the table, and after the table is
// removed from the slot.
void trace_started_add(TraceTable* table, TraceSource source) REQUIRES(trace_control);
void trace_started_remove(TraceTable* table) REQUIRES(trace_control);
