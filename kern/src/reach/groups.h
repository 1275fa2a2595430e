// What was found unreached, in groups: heads of one cache or arena and, where a trace knows them,
// of one stack, those declared to stay apart; and under each group what its heads keep, by cache
// and arena.
//
// Filled while all CPUs are stopped, so in memory that was there before, and without a number that
// means something to others: names and frames are copied. When there is no room for another group
// what belongs there is counted as not shown.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "reach/index.h"
#include "reach/objects.h"
#include "trace/trace.h"

namespace reach {

struct Tally {
  uint64_t objects = 0, bytes = 0;
  void add(uint64_t more_bytes) {
    objects++;
    bytes += more_bytes;
  }
};

struct Group {
  static constexpr unsigned kShown = 8;
  struct Head {
    uint64_t address;
    uint64_t bytes;
    Tally keeps;
  };

  uint32_t holder = 0;  // number of the group that keeps it, from 1 on; 0: of heads
  TraceSource source;
  uint32_t stack = 0;  // its number while it was looked at; 0: not known
  bool stays = false;  // the kernel has declared so (kmem_not_leak)
  char name[ARENA_NAME_MAX] = {};
  Tally own, keeps;
  std::array<Head, kShown> shown;  // of heads, the first ones
  uint32_t first_frame = 0, frames = 0;
};

class Groups {
 public:
  static constexpr uint32_t kMost = 512, kMostFrames = 16384;
  struct Memory {
    std::array<Group, kMost> groups;
    std::array<uint32_t, 2 * kMost> places;  // hash: number of a group from 1 on
    std::array<uint32_t, kMostFrames> frames;
  };

  Groups(Memory& memory, std::span<const Source> sources);

  // For find_heads().
  void head(const Object& object);
  void keeps(const Object& object);

  std::span<const Group> all() const { return {memory_.groups.data(), count_}; }
  // Return addresses, innermost first.
  std::span<const uint32_t> frames_of(const Group& group) const {
    return std::span(memory_.frames).subspan(group.first_frame, group.frames);
  }
  Tally unreached() const { return unreached_; }  // heads and what they keep
  uint64_t heads() const { return heads_; }
  Tally not_shown() const { return not_shown_; }

 private:
  Group* group_of(const Object& object, uint32_t holder);
  void copy_stack(Group& group);
  uint32_t number_of(const Group& group) const {
    return static_cast<uint32_t>(&group - memory_.groups.data()) + 1;
  }

  Memory& memory_;
  const std::span<const Source> sources_;
  uint32_t count_ = 0, frames_ = 0;
  Group* current_ = nullptr;  // of the last head
  Group::Head* shown_ = nullptr;
  Tally unreached_, not_shown_;
  uint64_t heads_ = 0;
};

}  // namespace reach
