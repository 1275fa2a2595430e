// Finds the stacks whose allocations hold the most memory, without allocating and without waiting
// for locks. Used when a cache is destroyed with live objects, when memory is exhausted, and in
// panics.
//
// Records are added up by stack and source in a fixed number of entries, in sets of eight. When a
// set is full, the entry with the smallest sum is reused, and its sum is added to `others_`. So the
// stacks that hold the most memory usually keep their entries. If an entry was reused and its stack
// occurs again, the sum of this stack is too low; otherwise it is exact. A shard whose lock is not
// free is skipped and counted. If all other CPUs are stopped, such a shard is read without the
// lock.
#pragma once

#include <cstddef>
#include <cstdint>

#include "intern/stack_table.h"
#include "trace/record/sampler.h"
#include "trace/record/table.h"

class TraceSummary {
 public:
  static constexpr size_t kSets = 256;
  static constexpr size_t kWays = 8;
  static constexpr unsigned kFramesShown = 24;

  struct Sum {
    uint64_t objects = 0, bytes = 0;  // sums over the records
    SampleWeight estimate = {};       // estimated sums over all allocations, recorded or not

    Sum& operator+=(const Sum& other) {
      objects += other.objects;
      bytes += other.bytes;
      estimate += other.estimate;
      return *this;
    }
    // Writes "N bytes in M allocations", and the estimate if it differs.
    void format_to(char* buffer, size_t size) const;
  };

  constexpr TraceSummary() = default;
  TraceSummary(const TraceSummary&) = delete;
  TraceSummary& operator=(const TraceSummary&) = delete;

  void clear();
  // The state of the other CPUs: kStandStill means that they are stopped until the report is over.
  enum class Others : uint8_t { kRun, kStandStill };
  // Adds the live records of a table; `name` must stay valid while the summary is used. Makes one
  // pass over the records, in slices with interrupts off (TraceTable::try_visit). Any context.
  void add(const char* name, TraceTable& table, Others others = Others::kRun);

  unsigned tables() const { return tables_; }
  unsigned locked_shards() const { return locked_shards_; }
  unsigned standing_shards() const { return standing_shards_; }
  const Sum& total() const { return total_; }

  // Prints, line by line, the `top` stacks with most bytes (for sampled traces, estimated bytes),
  // then the sum of the other stacks, and how many shards could not be read. Removes the printed
  // stacks, so that a second print() continues with the next ones.
  void print(unsigned top, const StackTable& stacks, void (*line)(const char* text));

 private:
  struct Slot {
    const char* name = nullptr;  // nullptr: the slot is free
    StackId stack = StackId::kNone;
    Sum sum = {};
  };

  void add_record(const char* name, StackId stack, const Sum& sum);
  Slot* largest();
  void print_unsure(void (*line)(const char* text)) const;
  void print_stack(const Slot& slot, const StackTable& stacks, void (*line)(const char* text));

  Slot slots_[kSets][kWays] = {};
  Sum total_ = {}, others_ = {};
  unsigned tables_ = 0;
  unsigned shards_ = 0;           // shards of all tables
  unsigned locked_shards_ = 0;    // shards that were skipped because they were locked
  unsigned standing_shards_ = 0;  // shards that were read without their locks
};
