// The list of trace tables in use, for reports. A panic can walk it at any time.
#pragma once

#include "trace/control.h"
#include "trace/trace_table.h"

// The first, or nullptr; TraceTable::next_started is the next. Tables in the list are complete.
// Under the control lock, or with all other CPUs stopped.
TraceTable* trace_started_first();
// Called before a table is put into the slot of `source`, and after it is removed from there.
void trace_started_add(TraceTable* table, TraceSource source) REQUIRES(trace_control);
void trace_started_remove(TraceTable* table) REQUIRES(trace_control);
