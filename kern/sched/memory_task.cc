// A task that does the periodic work of the allocator, which has no timer. The task ends the
// intervals over which depots measure their working sets (kmem_update). When free memory is low, it
// reaps the depots' surplus early, because atomic allocations cannot reap.
#include <atomic>

#include "arch/x86_64/dead_frames.h"
#include "arch/x86_64/time.h"
#include "arena.h"
#include "core/log.h"
#include "core/planted.h"
#include "kmalloc.h"
#include "lib/optimizer.h"
#include "sched/sched_impl.h"
#include "slab.h"

namespace {

constexpr unsigned kLooksInInterval = 15;
constexpr uint64_t kLowDivisor = 16;  // memory is low when less than 1/kLowDivisor is free

constinit std::atomic<Nanoseconds> look{kMemoryLook};

bool memory_is_low() {
  struct arena_stats base;
  arena_stats(base_arena, &base);
  return base.total_bytes - base.allocated_bytes < base.total_bytes / kLowDivisor;
}

[[gnu::noinline, gnu::noclone]] void planted_loss() {
  const void* lost = kmalloc(96, KM_SLEEP);
  escape(lost);
}

void memory_main(void*) {
  for (unsigned looks = 1;; looks++) {
    dead_frames_clear();
    static_cast<void>(task_sleep_until(monotonic_now() + look.load()));
    if (looks % kLooksInInterval == 0) kmem_update();
    if (planted(Planted::kByTime)) planted_loss();
    if (memory_is_low()) kmem_reap_some(KMEM_REAP_SURPLUS);
  }
}

}  // namespace

void memory_task_set_look(Nanoseconds length) {
  look = length;
}

void memory_task_init() {
  auto task = task_create("memory", memory_main, nullptr);
  if (!task) panic("no memory for the task of the allocator");
  task_start(*task);
}
