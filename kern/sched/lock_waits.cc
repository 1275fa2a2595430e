// For the search for deadlocks (reach/reach.h): reports each task that waits for a sleeping lock.
// All CPUs are stopped.
#include "arch/x86_64/frames.h"
#include "reach/reach.h"
#include "sched/sched_impl.h"

namespace {

struct Visit {
  void (*wait)(void* argument, const TaskHead& task, const Mutex& lock);
  void* argument;
};

void visit_task(Task& task, void* argument) {
  const auto& visit = *static_cast<const Visit*>(argument);
  if (task.waits_for) visit.wait(visit.argument, task, *task.waits_for);
}

void visit_waits(void (*wait)(void*, const TaskHead&, const Mutex&), void* argument) {
  Visit visit{wait, argument};
  task_for_each(visit_task, &visit);
}

size_t walk_stack(const TaskHead& head, uint64_t* program_counters, size_t max) {
  return task_walk_stack(static_cast<const Task&>(head), program_counters, max);
}

constexpr ReachTasks kTasks{visit_waits, walk_stack};

}  // namespace

size_t task_walk_stack(const Task& task, uint64_t* program_counters, size_t max) {
  return walk_saved_stack(task.context, task.stack_base, task.stack_top(), program_counters, max);
}

void lock_waits_init() {
  reach_register_tasks(kTasks);
}
