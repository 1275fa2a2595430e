// Adds up a snapshot's records by kernel stack, in one pass.
//
// The sums take memory for each stack, not for each record. When there is no memory for more
// stacks, the records of all further stacks are added up together (rest()).
#pragma once

#include <cstdint>
#include <span>

#include "intern/stack_table.h"
#include "trace/dump/set_impl.h"
#include "trace/record/sampler.h"
#include "trace/record/snapshot.h"

struct TraceGroup {
  using Key = StackId;
  explicit TraceGroup(StackId id) : stack(id) {}
  static uint64_t hash(StackId stack) { return number_of(stack) * 0x9e3779b97f4a7c15; }
  bool is(StackId id) const { return stack == id; }
  StackId key() const { return stack; }

  void add(const TraceRecord& record, const SampleWeight& weight) {
    const Milliseconds time = record.time();
    objects++;
    bytes += record.size();
    estimate += weight;
    time_sum += time.value;
    if (time > newest) newest = time;
  }

  StackId stack;  // kernel stack; kNone: not recorded
  uint64_t objects = 0, bytes = 0;
  SampleWeight estimate = {};  // estimated sums over all allocations, recorded or not
  uint64_t time_sum = 0;       // sum of the allocations' times since boot, in milliseconds
  Milliseconds newest;         // time of the newest allocation
};

class TraceGroups {
 public:
  static constexpr uint32_t kNone = DumpSet<TraceGroup>::kNone;

  // Sets the memory for groups, aligned to pages. Called once, before all other functions.
  void use(std::span<std::byte> memory) { groups_.use(memory); }
  // Makes one pass over the snapshot; `rate` is the trace's sampling rate. Sorts the groups by
  // bytes (in a sampled trace, estimated bytes), most first. May sleep.
  void add_up(TraceSnapshot& snapshot, TraceSnapshot::Slice& slice, uint64_t rate);

  uint32_t size() const { return groups_.size(); }
  const TraceGroup& operator[](uint32_t number) const { return groups_[number]; }
  uint32_t find(StackId stack) const { return groups_.find(stack); }
  // The number of groups whose stack was recorded.
  uint32_t stacks() const { return size() - (find(StackId::kNone) == kNone ? 0 : 1); }
  // The sums over the records without a group: there was no memory for a group of their stack.
  const TraceGroup& rest() const { return rest_; }
  // The sum of the weights of all records.
  const SampleWeight& estimate() const { return estimate_; }

 private:
  DumpSet<TraceGroup> groups_;
  TraceGroup rest_{StackId::kNone};
  SampleWeight estimate_ = {};
};
