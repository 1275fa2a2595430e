// Takes a snapshot of a table: returns its records, and stores its counters in *counters.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "trace/record/snapshot.h"

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
