// The trace tables that are in use, for reports: made so that a panic can go through it.
#pragma once

#include "trace/control.h"
#include "trace/trace_table.h"

// The first, or nullptr; TraceTable::next_started leads to the next. What is in the list is whole.
// Under the control lock, or with all other CPUs stopped.
TraceTable* trace_started_first();
// Before a table is put into the slot of `source`, and after it was taken away.
void trace_started_add(TraceTable* table, TraceSource source) REQUIRES(trace_control);
void trace_started_remove(TraceTable* table) REQUIRES(trace_control);
