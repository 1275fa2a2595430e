// The per-CPU data of a session.
//
// Only the CPU that owns the data changes it, with interrupts off. So the data needs no lock and
// shares no cache line. Other CPUs read tallies and counts at any time. clear() runs on the owning
// CPU, in an interprocessor interrupt, and moves the memory of the counts to `taken`. The CPU that
// sent the interrupt frees this memory.
#pragma once

#include <atomic>
#include <cstdint>

#include "intern/recent_user_stacks.h"
#include "intern/stack_counts.h"
#include "trace/record/sampler.h"

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

  // clear() resets these.
  StackCounts::CpuTable counts;
  Tally filtered, lost;
  Tally done;  // counted hits without an entry in `counts`: events and objects
  Tally stacks_lost, contexts_lost, truncated;
  // clear() does not reset these.
  Sampler sampler;
  RecentUserStacks user_stacks;
  // The memory of `counts` at the last clear(). The caller that sent the interrupt frees it.
  StackCounts::CpuTable::Contents taken;

  // Counts a hit that has no entry in `counts`. Called on the CPU that owns the data.
  void finish(bool kept) { (kept ? done : lost).increment(); }
  // Interrupts and probes are off, on the CPU that owns the data. Bound: a few instructions.
  void clear() {
    counts.take_away(taken);
    for (Tally* tally : {&filtered, &lost, &done, &stacks_lost, &contexts_lost, &truncated})
      tally->clear();
  }
  // Adds the tallies to `sum`, but not the hits that have entries in `counts`.
  void add_to(ProbeTallies& sum) const {
    sum.counted += done.value();
    sum.filtered += filtered.value();
    sum.lost += lost.value();
    sum.stacks_lost += stacks_lost.value();
    sum.contexts_lost += contexts_lost.value();
    sum.truncated += truncated.value();
  }
};
