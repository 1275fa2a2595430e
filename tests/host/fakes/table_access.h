// Access to a table of records, for tests.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "trace/record/snapshot.h"

// Records an event. For half of the objects, tries the fast path of hooks, record_at_once(), first.
inline void record(TraceTable& table, const TraceEvent& event) {
  coarse_time = event.time.value;
  if (event.object % 128 == 0 && event.stack != StackId::kNone &&
      event.context != ContextId::kNone && !event.user_stack_lost) {
    const uint64_t stack = number_of(event.stack) | (event.truncated ? kStackTruncated : 0);
    if (event.size < TraceTable::kLargeSize &&
        table.record_at_once(event.object, event.size, stack, event.context,
                             cpu_stamp(event.cpu, event.time)))
      return;
  }
  table.record(event);
}
inline void forget(TraceTable& table, uint64_t object, uint32_t cpu) {
  if (object % 128 != 0 ||
      (!table.forget_at_once(object, CpuId{cpu}) && !table.forget_elsewhere(object, CpuId{cpu})))
    table.forget(object, CpuId{cpu});
}

// Takes a snapshot of a table: returns its records, and stores its counters in *counters.
inline std::vector<TraceRecord> copy_of(TraceTable& table, TraceCounters* counters) {
  std::vector<TraceRecord> records;
  TraceSnapshot snapshot;
  EXPECT_TRUE(snapshot.open(table).ok());
  *counters = snapshot.counters();
  TraceSnapshot::Slice slice;
  snapshot.visit(slice, [&](const TraceRecord& record) { records.push_back(record); });
  EXPECT_EQ(records.size(), counters->live);
  return records;
}
