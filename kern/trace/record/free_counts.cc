#include "trace/record/free_counts_impl.h"

#include <new>

#include "intern/trace_memory.h"
#include "lib/units.h"

size_t FreeCounts::size_of(unsigned cpus) {
  static_assert(sizeof(FreeCounts) <= sizeof(PerCpu));
  return align_up((1 + cpus) * sizeof(PerCpu), kPageSize);
}

FreeCounts* FreeCounts::create(unsigned cpus) {
  void* const memory = trace_block_take(size_of(cpus));
  if (!memory) return nullptr;
  auto* const counts = new (memory) FreeCounts(cpus);
  for (unsigned i = 0; i < cpus; i++) new (counts->first() + i) PerCpu;
  return counts;
}

void FreeCounts::destroy(FreeCounts* counts) {
  for (PerCpu& cpu : std::span(counts->first(), counts->cpus_)) {
    StackCounts::CpuTable::Contents contents;
    cpu.pairs.take_away(contents);
    StackCounts::CpuTable::release(contents);
  }
  trace_block_free(counts, size_of(counts->cpus_));
}

void FreeCounts::count(StackId allocated_by, StackId freed_by, CpuId cpu) {
  PerCpu& mine = first()[number_of(cpu)];
  const bool known = allocated_by != StackId::kNone && freed_by != StackId::kNone;
  if (known && mine.pairs.add({allocated_by, freed_by})) return;
  mine.lost.store(mine.lost.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

uint64_t FreeCounts::lost() const {
  uint64_t sum = 0;
  for (const PerCpu& cpu : std::span(first(), cpus_))
    sum += cpu.lost.load(std::memory_order_relaxed);
  return sum;
}
