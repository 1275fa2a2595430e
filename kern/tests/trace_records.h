// Queries of traces, for tests.
#pragma once

#include "core/ktest.h"
#include "core/ref.h"
#include "core/sleep.h"
#include "trace/control/control.h"
#include "trace/record/snapshot.h"
#include "trace/trace.h"

inline TraceCounters counters_of(TraceSource source) {
  const MutexGuard guard(trace_control);
  TraceTable* const table = trace_table_of(source);
  return table ? table->counters() : TraceCounters{};
}

// Calls visit(record) for each live record of the source.
template <typename Visit>
void for_each_record(TraceSource source, Visit visit) {
  const MutexGuard guard(trace_control);
  TraceTable* const table = trace_table_of(source);
  if (!table) return;
  TraceSnapshot snapshot;
  EXPECT(snapshot.open(*table).ok());
  TraceSnapshot::Slice slice;
  snapshot.visit(slice, [&](const TraceRecord& record) { visit(record); });
}

// Counts the records of references to the object.
inline size_t records_of(TraceSource source, const void* object) {
  size_t count = 0;
  for_each_record(source, [&](const TraceRecord& record) {
    EXPECT(record.size() == 0);
    count += record.object() == reinterpret_cast<uint64_t>(object);
  });
  return count;
}
