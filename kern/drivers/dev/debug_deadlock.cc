#ifdef CONFIG_DEBUG_DEVICE

#include "drivers/dev/debug_deadlock.h"

#include <atomic>
#include <new>

#include "core/errstr.h"
#include "core/sleep.h"
#include "kmalloc.h"
#include "lib/words.h"
#include "sched/task.h"

namespace {

constexpr unsigned kMost = 100;

// A waiting task. The array of all Philosophers is never freed, since the tasks wait forever.
struct Philosopher {
  Mutex fork{LockRank::kDeviceMutex};
  Philosopher *neighbour = nullptr, *first = nullptr;
  // Number of tasks that have no fork yet; used in the first Philosopher only.
  std::atomic<unsigned> without{0};
  // The waiting task; nullptr in the first Philosopher, whose task is the caller.
  Task* task = nullptr;
};

// No analysis: the function takes two locks of one rank, against the lock order, and keeps them.
[[gnu::noinline]] void deadlock_dine(void* argument) NO_THREAD_SAFETY_ANALYSIS {
  auto& self = *static_cast<Philosopher*>(argument);
  self.fork.lock();
  self.first->without.fetch_sub(1);
  while (self.first->without.load() > 0) task_yield();
  self.neighbour->fork.lock();
}

// Makes all tasks except the first, which is the caller. On ENOMEM, no task remains.
Result<void> make_tasks(Philosopher* table, unsigned count) {
  for (unsigned i = 1; i < count; i++) {
    Result<Task*> task = task_create("deadlock", deadlock_dine, &table[i]);
    if (!task) {
      while (--i > 0) task_discard(table[i].task);
      return task.error();
    }
    table[i].task = *task;
  }
  return {};
}

}  // namespace

Result<void> debug_deadlock(std::string_view text) {
  constexpr std::string_view kBehind = " behind=";
  const std::string_view first = text.substr(0, text.find(' '));
  std::string_view rest = text.substr(first.size());
  uint64_t circle = 0, behind = 0;
  bool good = parse_number(first, 2, kMost, &circle);
  if (rest.starts_with(kBehind)) {
    good = good && parse_number(rest.substr(kBehind.size()), 0, kMost, &behind);
  } else {
    good = good && rest.empty();
  }
  if (!good) {
    return fail(Errno::EINVAL, "expected deadlock N [behind=M], N from 2 to %u, M up to %u", kMost,
                kMost);
  }
  const unsigned count = circle + behind;
  auto* const table = static_cast<Philosopher*>(kmalloc(count * sizeof(Philosopher), KM_SLEEP));
  if (!table) return Errno::ENOMEM;
  for (unsigned i = 0; i < count; i++) {
    const unsigned neighbour = i < circle ? (i + 1) % circle : i == circle ? 0 : i - 1;
    auto* const philosopher = new (&table[i]) Philosopher;
    philosopher->neighbour = &table[neighbour];
    philosopher->first = table;
  }
  table->without = count;
  if (Result<void> made = make_tasks(table, count); !made) {
    kfree(table);
    return made;
  }
  for (unsigned i = 1; i < count; i++) task_start(table[i].task);
  deadlock_dine(table);
  return {};
}

#endif  // CONFIG_DEBUG_DEVICE
