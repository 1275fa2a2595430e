// Sums of a snapshot's records by the kernel stack that allocated them, in one pass.
//
// This takes memory for each stack, not for each record. When there is no memory for more stacks,
// the records of stacks without a group are added up together.
#pragma once

#include <cstdint>
#include <span>

#include "store/stack_table.h"
#include "trace/dump/dump_set.h"
#include "trace/sampler.h"
#include "trace/snapshot.h"

struct TraceGroup {
  using Key = uint32_t;
  explicit TraceGroup(uint32_t id) : stack(id) {}
  static uint64_t hash(uint32_t stack) { return stack * 0x9e3779b97f4a7c15; }
  bool is(uint32_t id) const { return stack == id; }
  uint32_t key() const { return stack; }

  void add(const TraceRecord& record, const SampleWeight& weight) {
    const uint64_t time = record.milliseconds();
    objects++;
    bytes += record.size();
    estimate += weight;
    time_sum += time;
    if (time > newest) newest = time;
  }

  uint32_t stack;  // of the kernel; 0: not recorded
  uint64_t objects = 0, bytes = 0;
  SampleWeight estimate = {};         // their weight
  uint64_t time_sum = 0, newest = 0;  // milliseconds of their allocations
};

class TraceGroups {
 public:
  static constexpr uint32_t kNone = DumpSet<TraceGroup>::kNone;

  // Sets the page-aligned memory. Once, first.
  void use(std::span<std::byte> memory) { groups_.use(memory); }
  // Makes one pass over the snapshot; `rate` is the trace's sampling rate. Sorts the groups by
  // bytes (of a sampled trace, estimated bytes), most first. May sleep.
  void add_up(TraceSnapshot& snapshot, const StackTable& stacks, uint64_t rate);

  uint32_t size() const { return groups_.size(); }
  const TraceGroup& operator[](uint32_t number) const { return groups_[number]; }
  uint32_t find(uint32_t stack) const { return groups_.find(stack); }
  // The number of different stacks with a group.
  uint32_t stacks() const { return size() - (find(0) == kNone ? 0 : 1); }
  // The records without a group.
  const TraceGroup& rest() const { return rest_; }
  // The weight of all records.
  const SampleWeight& estimate() const { return estimate_; }

 private:
  DumpSet<TraceGroup> groups_;
  TraceGroup rest_{0};
  SampleWeight estimate_ = {};
};
