// Tasks that wait for each other's sleeping locks in a circle.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/lock_rank.h"
#include "lib/result.h"

namespace reach {

// The circles that were found, as far as there is room.
class Deadlocks {
 public:
  static constexpr unsigned kMostCircles = 16, kMostTasks = 64, kMostFrames = 24;
  struct Member {
    char name[32];
    uint32_t id, pid;  // 0: a task without a process
    uint32_t owner;    // id of the task that holds the lock
    LockRank rank;
    uint64_t lock;  // address
    size_t frame_count;
    std::array<uint64_t, kMostFrames> frames;  // return addresses, innermost first
  };
  struct Circle {
    size_t size;
    uint32_t first, shown;  // index into the members; how many
  };

  uint64_t circles = 0, tasks = 0;  // totals of circles and of their tasks
  std::span<const Circle> shown() const { return {shown_.data(), shown_count_}; }
  std::span<const Member> members_of(const Circle& circle) const {
    return std::span(members_).subspan(circle.first, circle.shown);
  }

  // For find_circles().
  void circle(size_t size);
  void member(const struct Wait& wait);

 private:
  std::array<Circle, kMostCircles> shown_;
  std::array<Member, kMostTasks> members_;
  uint32_t shown_count_ = 0, member_count_ = 0;
};

// Stops all CPUs and searches. ENOMEM with the error string set. May sleep; interrupts on, no
// spinlock held. Takes no sleeping lock.
Result<void> look_for_deadlocks(Deadlocks& deadlocks);

}  // namespace reach
