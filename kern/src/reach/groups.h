// Unreached objects in groups. Heads are grouped by cache or arena, by stack where a trace knows
// it, and by whether they were declared to stay. Under each group stand the objects that its heads
// keep, by cache and arena.
//
// Groups are filled while all CPUs are stopped, in memory that was allocated before. Names and
// frames are copied, because identifiers may be reused once CPUs run again. An object whose group
// has no room is counted as not shown.
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

  uint32_t holder = 0;  // number of the group that keeps it, from 1 on; 0: a group of heads
  TraceSource source;
  uint32_t stack = 0;  // its number at the time of the look; 0: not known
  bool stays = false;  // declared by the kernel (kmem_not_leak)
  char name[ARENA_NAME_MAX] = {};
  Tally own, keeps;
  std::array<Head, kShown> shown;  // the first ones, in a group of heads
  uint32_t first_frame = 0, frames = 0;
};

class Groups {
 public:
  static constexpr uint32_t kMost = 512, kMostFrames = 16384;
  struct Memory {
    std::array<Group, kMost> groups;
    std::array<uint32_t, 2 * kMost> places;  // hash table of group numbers, from 1 on
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
  Group* current_ = nullptr;  // of the last head; nullptr: not shown
  Group::Head* shown_ = nullptr;
  Tally unreached_, not_shown_;
  uint64_t heads_ = 0;
};

}  // namespace reach
