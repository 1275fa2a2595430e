// Circles of tasks that wait for each other's sleeping locks, and so wait for good.
//
// A task waits for one lock at most, and a lock has one owner: each task has one way out at most.
// So a walk from a task along the ways out either ends, or meets an earlier walk, or comes back to
// its own steps: to one for each circle, and never otherwise. What leads into a circle is in none.
// An owner is looked for among those that wait, by its address, and is not looked into.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace reach {

// A task that waits for a lock.
struct Wait {
  uint64_t task, lock;
  uint64_t owner;     // the task that has the lock; 0: none by now
  uint32_t walk = 0;  // for find_circles(): the number of the walk that was here first, from 1 on
};

// Calls report.circle(size) for each circle among the waits, and after it report.member(wait) for
// each of its tasks, of which each waits for the next one's lock and the last for that of the
// first. Sorts the waits. Time n log n.
template <typename Report>
void find_circles(std::span<Wait> waits, Report& report) {
  std::sort(waits.begin(), waits.end(),
            [](const Wait& a, const Wait& b) { return a.task < b.task; });
  const auto next_of = [&](const Wait* wait) -> Wait* {
    const auto found =
        std::lower_bound(waits.begin(), waits.end(), wait->owner,
                         [](const Wait& other, uint64_t task) { return other.task < task; });
    return found != waits.end() && found->task == wait->owner ? &*found : nullptr;
  };
  uint32_t walk = 0;
  for (Wait& start : waits) {
    walk++;
    Wait* at = &start;
    for (; at && at->walk == 0; at = next_of(at)) at->walk = walk;
    if (!at || at->walk != walk) continue;
    size_t size = 1;
    for (const Wait* member = next_of(at); member != at; member = next_of(member)) size++;
    report.circle(size);
    for (const Wait* member = at; size > 0; size--, member = next_of(member))
      report.member(*member);
  }
}

}  // namespace reach
