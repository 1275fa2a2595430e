// Tasks that wait for each other's sleeping locks in a circle.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/lock_rank.h"
#include "lib/result.h"

namespace reach {

// The circles that were found: their totals, and the details of as many as fit.
class Deadlocks {
 public:
  static constexpr unsigned kMostCircles = 16, kMostTasks = 64, kMostFrames = 24;
  struct Member {
    char name[32];
    uint32_t id, pid;  // of the waiting task; pid 0: it has no process
    uint32_t owner;    // id of the task that holds the lock
    LockRank rank;     // rank of the lock
    uint64_t lock;     // address of the lock
    size_t frame_count;
    std::array<uint64_t, kMostFrames> frames;  // return addresses, innermost first
  };
  struct Circle {
    size_t size;            // number of tasks
    uint32_t first, shown;  // index of the first member in `members_`, and number of stored members
  };

  uint64_t circles = 0, tasks = 0;  // totals of circles and of their tasks
  std::span<const Circle> shown() const { return {shown_.data(), shown_count_}; }
  std::span<const Member> members_of(const Circle& circle) const {
    return std::span(members_).subspan(circle.first, circle.shown);
  }

  // Called by find_circles().
  void circle(size_t size);
  void member(const struct Wait& wait);

 private:
  std::array<Circle, kMostCircles> shown_;
  std::array<Member, kMostTasks> members_;
  uint32_t shown_count_ = 0, member_count_ = 0;
};

// Stops all CPUs and searches for circles. ENOMEM with the error string set. May sleep; interrupts
// on, no spinlock held. Takes no sleeping lock.
Result<void> look_for_deadlocks(Deadlocks& deadlocks);

}  // namespace reach
