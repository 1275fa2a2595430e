// Runs the sweeper of stacks and contexts (intern/sweeper.h) in a task, and retains the stack and
// context numbers that tasks remember, so that the sweeper does not free them.
//
// Allocator hooks may run with any lock of the scheduler held, so they do not wake the sweeper's
// task. Instead each CPU's tick tests whether a sweep is wanted. A task that a tick wakes goes to
// the head of its queue and runs at once. So the sweep comes before the interrupted task can add
// more stacks and contexts.
#include <atomic>

#include "arch/x86_64/dead_frames.h"
#include "core/log.h"
#include "intern/sweeper.h"
#include "sched/sched_impl.h"

namespace {

constinit Spinlock lock{LockRank::kDevice};
constinit WaitQueue wait_queue;
constinit std::atomic<bool> asked{false};  // a sweep is due or under way; set with `lock` held

void wait_until_asked() {
  const Guard guard(lock);
  wait_queue.wait_uninterruptible(lock, [] { return asked.load(); });
}

void sweep_main(void*) {
  for (;;) {
    dead_frames_clear();
    wait_until_asked();
    trace_sweep();
    asked = false;
  }
}

void retain_tasks(Retained& retained) {
  const auto retain_numbers = [&retained](const TraceNumbers& numbers) {
    retained.stack(numbers.stack);
    retained.context(numbers.context);
  };
  TraceNumbers numbers[kRememberedAtOnce];
  for (size_t count = tasks_remembered(true, numbers); count > 0;
       count = tasks_remembered(false, numbers)) {
    for (size_t i = 0; i < count; i++) retain_numbers(numbers[i]);
  }
  for (const CpuId cpu : all_cpus()) retain_numbers(trace_remembered_by(idle_task(cpu)));
}

}  // namespace

void sweep_task_tick() {
  if (!trace_sweep_wanted() || asked.load(std::memory_order_relaxed)) return;
  const Guard guard(lock);
  if (asked.exchange(true)) return;
  wait_queue.wake_one();
}

void sweep_task_init() {
  trace_register_retainer(retain_tasks);
  auto task = task_create("sweeper", sweep_main, nullptr);
  if (!task) panic("no memory for the sweeper of stacks and contexts");
  task_start(*task);
}
