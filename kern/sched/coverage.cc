#include "sched/coverage.h"

#ifdef CONFIG_COVERAGE
#include <algorithm>
#include <utility>

#include "core/planted.h"
#include "core/probe_guard.h"
#include "kmalloc.h"
#include "sched/task.h"

extern "C" const char text_start[], text_end[];
extern "C" void __sanitizer_cov_trace_pc();

Result<Ref<CoverageMap>> CoverageMap::create() {
  const uint64_t bits = static_cast<uint64_t>(text_end - text_start) / kGrain + 1;
  void* const memory =
      kmalloc(sizeof(CoverageMap) + (bits / 64 + 1) * sizeof(uint64_t), KM_SLEEP | KM_ZERO);
  if (!memory) return Errno::ENOMEM;
  return Ref<CoverageMap>::first(new (memory) CoverageMap);
}

void CoverageMap::destroy(CoverageMap* map) {
  kfree(map);
}

NOT_PROBED void CoverageMap::record(uint64_t return_address) {
  const uint64_t bit = (return_address - reinterpret_cast<uint64_t>(text_start)) / kGrain;
  const uint64_t mask = uint64_t{1} << bit % 64;
  std::atomic<uint64_t>& word = seen()[bit / 64];
  if (word.load(std::memory_order_relaxed) & mask) return;
  if (word.fetch_or(mask, std::memory_order_relaxed) & mask) return;
  const uint32_t index = count_.fetch_add(1, std::memory_order_relaxed);
  if (index < kMaxPlaces) places_[index].store(return_address, std::memory_order_relaxed);
}

size_t CoverageMap::read(char* buffer, size_t size, uint64_t offset) const {
  const uint64_t count = std::min(count_.load(std::memory_order_relaxed), kMaxPlaces);
  uint64_t index = offset / sizeof(uint64_t);
  size_t done = 0;
  for (; index < count && size - done >= sizeof(uint64_t); index++, done += sizeof(uint64_t)) {
    const uint64_t place = places_[index].load(std::memory_order_relaxed);
    if (place == 0) break;  // the task has taken this index, but not stored the place yet
    __builtin_memcpy(buffer + done, &place, sizeof(place));
  }
  return done;
}

// Sets task.coverage to null before it releases the old map, so that code that runs during the
// release records nothing.
void coverage_use(CoverageMap* map) {
  Task& task = *current_task();
  if (!map || !planted(Planted::kCoverageAgain))
    Ref<CoverageMap>::adopt(std::exchange(task.coverage, {})).reset();
  task.coverage = Ref<CoverageMap>(map).release();
}

// The compiler calls this at the start of each basic block. Code of exception handlers is recorded,
// since the task causes the exceptions; code of interrupt handlers is not.
NOT_PROBED void __sanitizer_cov_trace_pc() {
  const Task* const task = current_task();
  if (!task || !task->coverage.object || this_cpu().interrupt_depth > 0) return;
  task->coverage.object->record(reinterpret_cast<uint64_t>(__builtin_return_address(0)));
}
#endif
