// Counts who frees: how many objects that one stack has allocated another stack has freed. A trace
// that was started with `frees` has such counts.
//
// While frees are counted, the locks of the trace's shards are closed to hooks (core/hook_lock.h).
// So each free goes the slow way, which counts it, and the way of other traces has no test for it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/cpu.h"
#include "intern/ids.h"
#include "intern/stack_counts.h"

class FreeCounts {
 public:
  // Counts for CPUs 0 to `cpus` - 1; nullptr when out of memory. Context and locks as for
  // trace_block_take().
  static FreeCounts* create(unsigned cpus);
  // Nobody may use the counts any more. The caller holds no tracer lock.
  static void destroy(FreeCounts* counts);

  // Counts a free by the stack `freed_by` of an object that the stack `allocated_by` allocated.
  // Without one of the stacks, and without memory for the pair, the free counts as lost. `cpu` is
  // the calling CPU; interrupts are off. Bound: as for StackCounts::CpuTable::add().
  void count(StackId allocated_by, StackId freed_by, CpuId cpu);
  // Frees that are in no pair.
  uint64_t lost() const;
  // Calls visit(allocated_by, freed_by, frees) for each pair of each CPU, so for a pair perhaps
  // more than once. CPUs may count meanwhile.
  template <typename Visit>
  void visit(Visit visit) const {
    for (const PerCpu& cpu : std::span(first(), cpus_)) {
      cpu.pairs.visit([&](StackCounts::Key key, uint64_t frees) {
        visit(key.stack, key.other_stack(), frees);
      });
    }
  }

 private:
  // Changed only by the CPU.
  struct alignas(64) PerCpu {
    StackCounts::CpuTable pairs;
    std::atomic<uint64_t> lost{0};
  };

  explicit FreeCounts(unsigned cpus) : cpus_(cpus) {}
  static size_t size_of(unsigned cpus);
  PerCpu* first() { return reinterpret_cast<PerCpu*>(this) + 1; }
  const PerCpu* first() const { return reinterpret_cast<const PerCpu*>(this) + 1; }

  const unsigned cpus_;
  // The CPUs' counts follow in memory.
};
