// The per-CPU data of a session.
//
// Only its CPU changes it, with interrupts off, so it needs no lock and shares no cache line.
// Others read tallies and counts at any time. Clearing runs on the CPU, in an interprocessor
// interrupt, and leaves in `taken` memory that is freed afterwards.
#pragma once

#include <atomic>
#include <cstdint>

#include "probe/stack_counts.h"
#include "store/recent_user_stacks.h"
#include "trace/sampler.h"

// Outcomes of hits; hits = counted + filtered + lost.
struct ProbeTallies {
  uint64_t counted = 0, filtered = 0, lost = 0, stacks_lost = 0, contexts_lost = 0, truncated = 0;
  uint64_t hits() const { return counted + filtered + lost; }
};

struct alignas(64) ProbePerCpu {
  class Tally {
   public:
    void increment() { store(value() + 1); }
    void clear() { store(0); }
    uint64_t value() const { return value_.load(std::memory_order_relaxed); }

   private:
    void store(uint64_t value) { value_.store(value, std::memory_order_relaxed); }
    std::atomic<uint64_t> value_{0};
  };

  // Reset by clear().
  StackCounts::CpuTable counts;
  Tally filtered, lost;
  Tally done;  // counted hits without an entry in `counts`: events and objects
  Tally stacks_lost, contexts_lost, truncated;
  // Kept as long as the session lives.
  Sampler sampler;
  RecentUserStacks user_stacks;
  // Control's; it frees this after clear().
  StackCounts::CpuTable::Contents taken;

  // Counts a hit that has no entry in `counts`. On the CPU itself.
  void finish(bool kept) { (kept ? done : lost).increment(); }
  // Interrupts off, on the CPU itself. Bound: a few instructions.
  void clear() {
    counts.take_away(taken);
    for (Tally* tally : {&filtered, &lost, &done, &stacks_lost, &contexts_lost, &truncated})
      tally->clear();
  }
  // Adds all tallies to `sum`, without `counts`.
  void add_to(ProbeTallies& sum) const {
    sum.counted += done.value();
    sum.filtered += filtered.value();
    sum.lost += lost.value();
    sum.stacks_lost += stacks_lost.value();
    sum.contexts_lost += contexts_lost.value();
    sum.truncated += truncated.value();
  }
};
