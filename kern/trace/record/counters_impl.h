// The counters of a trace. The list in abi/tracedump.h generates the fields of TraceCounters, its
// operator+=, the counters of a shard (TraceTable::Tally), the words of a text dump and the fields
// of a binary dump. A new counter needs a line in that list, and a line where it is counted.
#pragma once

#include <cstdint>

#include "abi/tracedump.h"

struct SampleWeight;

struct TraceCounters {
  ABI_TRACEDUMP_COUNTERS(ABI_TRACEDUMP_COUNTER, ABI_TRACEDUMP_COUNTER, ABI_TRACEDUMP_COUNTER)

  TraceCounters& operator+=(const TraceCounters& other);
  // `objects` is the number of all live objects: those with a record and those without one.
  void set_untracked(uint64_t objects) { untracked = objects > live ? objects - live : 0; }
  void set_estimate(const SampleWeight& weight);
};

struct TraceCounter {
  const char* name;
  uint64_t TraceCounters::*value;
};
#define TRACE_COUNTER(name) {#name, &TraceCounters::name},
inline constexpr TraceCounter kTraceCounters[] = {
    ABI_TRACEDUMP_COUNTERS(TRACE_COUNTER, TRACE_COUNTER, TRACE_COUNTER)};
#undef TRACE_COUNTER
