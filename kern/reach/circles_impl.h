// Circles of tasks that wait for each other's sleeping locks, and so wait forever.
//
// A task waits for at most one lock, and a lock has at most one owner. So each task has at most one
// edge, to the owner of the lock that it waits for. A walk along these edges ends, meets an earlier
// walk, or comes back to a task that it has visited itself. The third case happens exactly once for
// each circle. A task outside of a circle is no member, even if its walk leads into the circle.
// Owners are looked up by address among the waiting tasks and are not dereferenced.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace reach {

// A task that waits for a lock.
struct Wait {
  uint64_t task, lock;
  uint64_t owner;  // the task that holds the lock; 0: none at this moment
  // Used by find_circles(): the number, from 1 on, of the first walk that came here; 0: none yet.
  uint32_t walk = 0;
};

// Calls report.circle(size) for each circle among the waits, followed by report.member(wait) for
// each of its tasks. Each member waits for a lock that the next member holds; the last member waits
// for a lock that the first member holds. Sorts the waits. Time O(n log n).
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
