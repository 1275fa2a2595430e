// The stacks that hold most, where nothing may be allocated and no lock waited for: when a cache is
// destroyed with live objects, when memory has run out, and in a panic.
//
// Records are summed up by stack and source into a fixed number of places, in sets of eight. Where
// a set is full the smallest of its sums goes to `others` and makes room: what holds much stays, in
// sums that are exact unless that has happened to it, and then too low by what stands among the
// others. A shard whose lock is not free is left out and counted, or, where nobody else runs any
// more, read without.
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
    SampleWeight estimate = {};       // what they stand for

    Sum& operator+=(const Sum& other) {
      objects += other.objects;
      bytes += other.bytes;
      estimate += other.estimate;
      return *this;
    }
    // "N bytes in M allocations", and of a sampled trace the estimate.
    void format_to(char* buffer, size_t size) const;
  };

  constexpr TraceSummary() = default;
  TraceSummary(const TraceSummary&) = delete;
  TraceSummary& operator=(const TraceSummary&) = delete;

  void clear();
  // Whether other CPUs run, or stand still until the report is over.
  enum class Others : uint8_t { kRun, kStandStill };
  // Adds the live records of a table, called `name` as long as the summary is used. Interrupts off.
  // Bound: one pass over the records; each shard's lock is held for its part of it.
  void add(const char* name, TraceTable& table, const StackTable& stacks,
           Others others = Others::kRun);

  unsigned tables() const { return tables_; }
  unsigned locked_shards() const { return locked_shards_; }
  unsigned standing_shards() const { return standing_shards_; }
  const Sum& total() const { return total_; }

  // Prints, a line at a time, the stacks with most bytes (of sampled traces as they are estimated),
  // `top` of them; then what the rest holds, and what is not known. Each stack is printed once:
  // what print() has printed is the rest's no more.
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
