// The lock for starting and stopping traces; and access to the trace table of a source, which is a
// cache, an arena or a class of references.
#pragma once

#include "core/sleep.h"
#include "trace/control/command_impl.h"
#include "trace/control/later_impl.h"
#include "trace/record/table.h"
#include "trace/trace.h"

// Serialises start, stop, reset, mark and the opening of dumps.
extern Mutex trace_control;

// The number of start, refs, stop, reset and mark commands since boot. A command counts once, even
// if it is for all sources or has no effect.
extern uint32_t trace_commands_done GUARDED_BY(trace_control);

// The requests to trace caches and arenas that do not exist yet.
extern TraceLater trace_later GUARDED_BY(trace_control);
// Starts the traces of `items`, the value of `trace=` on the kernel command line; this text must
// stay valid. The trace of a cache or arena that does not exist yet is started when the cache or
// arena is made. Logs a line for each invalid item. Called once, at boot.
void trace_start_at_boot(std::string_view items);

// Returns the address of the source's pointer to the table of its trace. The type trace_table in
// slab.h is TraceTable.
inline TraceTable** trace_slot_of(TraceSource source) {
  return reinterpret_cast<TraceTable**>(source.trace_slot());
}
// The table of the source's trace; nullptr while the trace is off.
inline TraceTable* trace_table_of(TraceSource source) {
  return __atomic_load_n(trace_slot_of(source), __ATOMIC_ACQUIRE);
}
TraceState trace_state_of(TraceSource source) REQUIRES(trace_control);
