// Allocations that fail, for tests of code that must cope with a lack of memory.
#pragma once

#include <atomic>

#include "core/ktest.h"
#include "sched/task.h"
#include "slab.h"

// While this object exists, all allocations of the current task fail but the first `succeed`.
// Counts only allocations that may sleep: the allocator makes the others for itself, and its
// callers succeed without them.
class FailingAllocations {
 public:
  explicit FailingAllocations(unsigned succeed) {
    left_ = succeed;
    task_ = current_task_head();
    EXPECT(kmem_inject_begin(fails));
  }
  ~FailingAllocations() {
    kmem_inject_end();
    task_ = nullptr;
  }
  FailingAllocations(const FailingAllocations&) = delete;
  FailingAllocations& operator=(const FailingAllocations&) = delete;

 private:
  static int fails(kmem_inject_site site, const void*, size_t, int flags) {
    if (current_task_head() != task_ || !(flags & KM_SLEEP)) return 0;
    if (site != KMEM_INJECT_TRACE && site != KMEM_INJECT_CACHE) return 0;
    if (left_ == 0) return 1;
    left_--;
    return 0;
  }
  static inline constinit std::atomic<unsigned> left_{0};
  static inline constinit std::atomic<const TaskHead*> task_{nullptr};
};

// Calls attempt(), first with all allocations failing, then with all but the first, and so on,
// until it succeeds. Returns the number of failures. Each must be ENOMEM.
template <typename Attempt>
unsigned failures_until_success(Attempt attempt) {
  for (unsigned succeed = 0;; succeed++) {
    const FailingAllocations failing(succeed);
    const Result<void> done = attempt();
    if (done) return succeed;
    EXPECT(done.error() == Errno::ENOMEM);
  }
}
