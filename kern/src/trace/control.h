// The slot of a source's trace, and the lock under which traces are started and stopped.
#pragma once

#include "core/sleep.h"
#include "trace/command.h"
#include "trace/later.h"
#include "trace/trace.h"
#include "trace/trace_table.h"

// Serialises start, stop, reset, mark and the opening of dumps.
extern Mutex trace_control;

// The number of start, stop, reset and mark commands since boot, with effect or without, for one
// source or all.
extern uint32_t trace_commands_done GUARDED_BY(trace_control);

// The requests to trace caches and arenas that do not exist yet.
extern TraceLater trace_later GUARDED_BY(trace_control);
// Starts the traces of `items`, the value of `trace=` on the kernel command line, whose text must
// stay valid. Items that do not exist yet are started when they are made. Logs a line for each
// invalid item. Once, at boot.
void trace_start_at_boot(std::string_view items);

// The slot of the table. slab.h's trace_table is a TraceTable.
inline TraceTable** trace_slot_of(TraceSource source) {
  return reinterpret_cast<TraceTable**>(source.trace_slot());
}
// The table; nullptr while the trace is off.
inline TraceTable* trace_table_of(TraceSource source) {
  return __atomic_load_n(trace_slot_of(source), __ATOMIC_ACQUIRE);
}
TraceState trace_state_of(TraceSource source) REQUIRES(trace_control);
