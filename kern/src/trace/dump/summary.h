// The stacks that hold most memory, computed without allocation and without waiting for locks: for
// the destruction of a cache with live objects, for out-of-memory, and for panics.
//
// Records are summed up by stack and source in a fixed number of entries, in sets of eight. When a
// set is full, its smallest sum moves to `others` and makes room. So the stacks that hold most
// usually stay. A sum is exact unless it was moved before; then it is too low by that part. A shard
// whose lock is not free is skipped and counted or, if all other CPUs are stopped, read without the
// lock.
#pragma once

#include <cstddef>
#include <cstdint>

#include "store/stack_table.h"
#include "trace/sampler.h"
#include "trace/trace_table.h"

class TraceSummary {
 public:
  static constexpr size_t kSets = 256;
  static constexpr size_t kWays = 8;
  static constexpr unsigned kFramesShown = 24;

  struct Sum {
    uint64_t objects = 0, bytes = 0;  // recorded
    SampleWeight estimate = {};       // their weight

    Sum& operator+=(const Sum& other) {
      objects += other.objects;
      bytes += other.bytes;
      estimate += other.estimate;
      return *this;
    }
    // "N bytes in M allocations", and for a sampled trace the estimate.
    void format_to(char* buffer, size_t size) const;
  };

  constexpr TraceSummary() = default;
  TraceSummary(const TraceSummary&) = delete;
  TraceSummary& operator=(const TraceSummary&) = delete;

  void clear();
  // The other CPUs run, or are stopped until the report is over.
  enum class Others : uint8_t { kRun, kStandStill };
  // Adds the live records of a table; `name` must stay valid while the summary is used. Interrupts
  // off. Bound: one pass over the records; each shard's lock is held for its part of it.
  void add(const char* name, TraceTable& table, const StackTable& stacks,
           Others others = Others::kRun);

  unsigned tables() const { return tables_; }
  unsigned locked_shards() const { return locked_shards_; }
  unsigned standing_shards() const { return standing_shards_; }
  const Sum& total() const { return total_; }

  // Prints, line by line, the `top` stacks with most bytes (of sampled traces, estimated bytes),
  // then the sum of the rest, and the unknown part. Removes the printed stacks, so that a second
  // print() continues with the next ones.
  void print(unsigned top, const StackTable& stacks, void (*line)(const char* text));

 private:
  struct Slot {
    const char* name = nullptr;  // free if it has none
    uint32_t stack = 0;
    Sum sum = {};
  };

  void add_record(const char* name, uint32_t stack, const Sum& sum);
  Slot* largest();
  void print_unsure(void (*line)(const char* text)) const;
  void print_stack(const Slot& slot, const StackTable& stacks, void (*line)(const char* text));

  Slot slots_[kSets][kWays] = {};
  Sum total_ = {}, others_ = {};
  unsigned tables_ = 0;
  unsigned shards_ = 0;  // of the tables
  unsigned locked_shards_ = 0;
  unsigned standing_shards_ = 0;  // read without their locks
};
