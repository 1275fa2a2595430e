// Where a trace is kept, and the lock under which traces are started and stopped.
#pragma once

#include "core/sleep.h"
#include "trace/command.h"
#include "trace/later.h"
#include "trace/trace.h"
#include "trace/trace_table.h"

// Serialises start, stop, reset, mark and the opening of dumps.
extern Mutex trace_control;

// How many of the words start, stop, reset and mark were done since boot, with effect or without,
// for one source or all.
extern uint32_t trace_commands_done GUARDED_BY(trace_control);

// What is to be traced as soon as it is made.
extern TraceLater trace_later GUARDED_BY(trace_control);
// Starts what `items` names, the value of `trace=` on the kernel command line, which stays where it
// is; what it names that does not exist yet is started when it is made. A line in the log for each
// item that is wrong. Once, at boot.
void trace_start_at_boot(std::string_view items);

// Where a table is kept. What slab.h calls a trace_table is ours.
inline TraceTable** trace_slot_of(TraceSource source) {
  return reinterpret_cast<TraceTable**>(source.trace_slot());
}
// The table; nullptr while the trace is off.
inline TraceTable* trace_table_of(TraceSource source) {
  return __atomic_load_n(trace_slot_of(source), __ATOMIC_ACQUIRE);
}
TraceState trace_state_of(TraceSource source) REQUIRES(trace_control);
