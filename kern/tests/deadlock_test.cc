// Tests the search for deadlocks (reach/deadlock_impl.h): tasks wait for each other's sleeping
// locks, but never in a circle, so the search must find none. A kernel that checks the lock order
// allows no circle; tests/guest/deadlock_test.py tests circles.
#include <atomic>
#include <memory>

#include "core/ktest.h"
#include "kmalloc.h"
#include "reach/deadlock_impl.h"
#include "sched/task.h"
#include "tests/team.h"

namespace {

// Tasks in a row. Each holds its own lock and waits for the lock of the task before it.
struct Row {
  static constexpr unsigned kTasks = 100;
  struct Link {
    Mutex lock{LockRank::kDeviceMutex};
  };
  Link links[kTasks + 1];
  std::atomic<unsigned> next{1}, holding{0};

  void run() {
    const unsigned i = next.fetch_add(1);
    links[i].lock.lock();
    current_task()->held_mutexes = 0;  // lets the task take a second lock of the same rank
    holding.fetch_add(1);
    while (holding.load() < kTasks) task_yield();
    links[i - 1].lock.lock();
    links[i - 1].lock.unlock();
    links[i].lock.unlock();
  }
  // Counts the tasks that are waiting for a lock.
  static unsigned waiting() {
    unsigned count = 0;
    task_for_each(
        [](Task& task, void* argument) {
          *static_cast<unsigned*>(argument) += task.waits_for && task.state == TaskState::kSleeping;
        },
        &count);
    return count;
  }
};

uint64_t circles() {
  auto* const deadlocks =
      static_cast<reach::Deadlocks*>(kmalloc(sizeof(reach::Deadlocks), KM_SLEEP));
  EXPECT(deadlocks);
  std::construct_at(deadlocks);
  EXPECT(reach::look_for_deadlocks(*deadlocks).ok());
  const uint64_t found = deadlocks->circles;
  EXPECT(deadlocks->shown().size() == found && (found > 0) == (deadlocks->tasks > 0));
  kfree(deadlocks);
  return found;
}

}  // namespace

KTEST(deadlock_a_row_of_tasks_is_none) {
  static Row row;
  EXPECT(circles() == 0);
  row.links[0].lock.lock();
  Team team([](void* argument) { static_cast<Row*>(argument)->run(); }, &row);
  for (unsigned i = 0; i < Row::kTasks; i++) team.add();
  while (Row::waiting() < Row::kTasks) {
    EXPECT(circles() == 0);
    task_yield();
  }
  EXPECT(circles() == 0);
  row.links[0].lock.unlock();
  while (Row::waiting() > 0) EXPECT(circles() == 0);
  team.join();
}

// Locks change hands on all CPUs, and no task is reported in a circle.
KTEST(deadlock_none_while_locks_change_hands) {
  struct Shared {
    Mutex outer{LockRank::kDebugDevice}, inner{LockRank::kDeviceMutex};
    std::atomic<bool> stop{false};
  };
  static Shared shared;
  shared.stop = false;
  Team team(
      [](void*) {
        while (!shared.stop) {
          const MutexGuard outer(shared.outer);
          if (current_task()->id % 2 == 0) task_yield();
          const MutexGuard inner(shared.inner);
        }
      },
      nullptr);
  for (unsigned i = 0; i < 2 * cpu_count(); i++) team.add();
  for (unsigned i = 0; i < 30; i++) EXPECT(circles() == 0);
  shared.stop = true;
  team.join();
  EXPECT(Row::waiting() == 0);
}
