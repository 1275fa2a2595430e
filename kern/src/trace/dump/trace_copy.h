// What a dump is made of: the records of a table at one moment, sorted by stack, with the counters
// that belong to them. A record of the copy has both its stacks, where that of the table names
// their pair.
//
// Each shard is copied, and its counters added, under its lock, so that counters and records agree;
// shards may differ in moment. The copy lies in memory that is not the tracer's and that no trace
// sees.
#pragma once

#include <cstddef>
#include <cstdint>

#include "lib/result.h"
#include "store/page_buffer.h"
#include "store/stack_table.h"
#include "trace/trace_table.h"

class TraceCopy {
 public:
  // Copies `table` and sorts: by stack, within a stack the oldest first. `now`, in coarse
  // milliseconds, is asked for after the copy is made. ENOMEM. May sleep; once for each TraceCopy.
  Result<void> take(TraceTable& table, const StackTable& stacks, uint64_t (*now)());

  const TraceCounters& counters() const { return counters_; }
  uint32_t size() const { return size_; }
  const TraceRecord& operator[](uint32_t index) const { return records_[index]; }
  // Whether the record has another stack than the one before it.
  bool begins_stack(uint32_t index) const {
    return index == 0 || records_[index].stack != records_[index - 1].stack;
  }
  // Different stacks of the records; what was not recorded is none.
  uint32_t stacks() const { return stacks_; }
  // Milliseconds since the allocation, at the moment of the copy.
  uint64_t age(const TraceRecord& record) const { return now_ - record.milliseconds(); }
  // Marks the numbers of its records. After take().
  void mark(StoreMark& mark) const;

 private:
  Result<void> copy_records(TraceTable& table);
  void split(const StackTable& stacks);
  void sort();

  TraceCounters counters_ = {};
  PageBuffer<TraceRecord> records_;
  uint32_t size_ = 0;
  uint32_t stacks_ = 0;
  uint64_t now_ = 0;
};
