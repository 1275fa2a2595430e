// Unreached objects in groups. A head is an unreached object that no other unreached object leads
// to. If unreached objects lead to each other in a circle, and no unreached object outside of the
// circle leads to them, one of them is the head. A head keeps the objects that can be reached from
// it and from no earlier head (heads.h). Heads are grouped by three properties: their cache or
// arena, the stack that allocated them (unknown without a trace), and whether their trace records
// say that they stay (kmem_not_leak). The objects that the heads of a group keep form further
// groups, one for each cache or arena.
//
// Groups are filled while all CPUs are stopped, in memory that was allocated before the CPUs
// stopped. Names and frames are copied, because caches may be destroyed and stack ids reused once
// CPUs run again. If there is no room for an object's group, the object is counted as not shown.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "intern/ids.h"
#include "reach/index.h"
#include "reach/objects_impl.h"
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
    Tally keeps;  // the objects that this head keeps
  };

  uint32_t holder = 0;  // 0: a group of heads. Otherwise the number, from 1 on, of the group of
                        // heads that keeps these objects
  TraceSource source;
  // The stack that allocated the objects, valid while CPUs are stopped; kNone: unknown.
  StackId stack = StackId::kNone;
  bool stays = false;              // kmem_not_leak() was called for the objects
  char name[ARENA_NAME_MAX] = {};  // name of `source`
  // `own`: the objects of the group. `keeps`: in a group of heads, the objects that the heads keep.
  Tally own, keeps;
  std::array<Head, kShown> shown;        // in a group of heads: the first heads
  uint32_t first_frame = 0, frames = 0;  // the stack in Memory::frames: index and number of frames
};

class Groups {
 public:
  static constexpr uint32_t kMost = 512, kMostFrames = 16384;
  struct Memory {
    std::array<Group, kMost> groups;
    // Hash table. For each slot: a group's number, from 1 on; 0: the slot is free.
    std::array<uint32_t, 2 * kMost> places;
    std::array<uint32_t, kMostFrames> frames;  // packed return addresses of all groups' stacks
  };

  Groups(Memory& memory, std::span<const Source> sources);

  // Called by find_heads().
  void head(const Object& object);
  void keeps(const Object& object);

  std::span<const Group> all() const { return {memory_.groups.data(), count_}; }
  // Packed return addresses (StackTable::unpacked), innermost first.
  std::span<const uint32_t> frames_of(const Group& group) const {
    return std::span(memory_.frames).subspan(group.first_frame, group.frames);
  }
  Tally unreached() const { return unreached_; }  // heads and the objects that they keep
  uint64_t heads() const { return heads_; }
  // Unreached objects that are in no group, since there was no room.
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
  Group* current_ = nullptr;      // group of the last head; nullptr: there was no room for it
  Group::Head* shown_ = nullptr;  // the last head, if it is one of the group's shown heads
  Tally unreached_, not_shown_;
  uint64_t heads_ = 0;
};

}  // namespace reach
