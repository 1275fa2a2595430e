// Stacks that a CPU has recorded lately, so that the next allocation from the same place need not have its stack hashed.
//
// Each CPU has a small direct-mapped table. An entry holds, for each frame of a walk, the frame pointer and the return
// address, and the number of the stack. It is valid for an allocation if both are found again, for each frame, on the
// stack as it is now: the walk is repeated by comparing, six instructions a frame, and its result is therefore the same.
// A shorter key would not do: stacks that differ only far up have the same return addresses and frame pointers below.
//
// Only frames on the current task's own stack are kept. An entry names the top of the stack that it was made on; as long
// as that is the CPU's, all its frame pointers lie on that stack and may be followed without looking at the bounds.
//
// An entry is used and filled by its CPU alone, with interrupts off. The pages are trace memory, taken when the first
// trace begins if they are a small part of the limit, and given back with the stack table.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "cpu.h"

class RecentStack {
 public:
  static constexpr size_t kMaxFrames = 61;

  // Whether a walk of at most `max` frames from `frame_pointer` would find now what it found then. The stack's top is
  // `cpu.kernel_stack`.
  bool matches(uint64_t frame_pointer, uint32_t max, const Cpu& cpu) const {
    if (pointers_[0] != frame_pointer || top_ != cpu.kernel_stack || max_ != max) return false;
    const auto* memory = reinterpret_cast<const uint64_t*>(frame_pointer);
    const size_t last = count_ - 1;
    size_t i = 0;
#pragma GCC unroll 4
    for (; i < last; i++) {
      const uint64_t next = pointers_[i + 1];
      if (memory[1] != return_addresses_[i] || memory[0] != next) return false;
      memory = reinterpret_cast<const uint64_t*>(next);
    }
    return memory[1] == return_addresses_[i] && (end_ == End::kMax || ends(memory[0]));
  }
  // What it found: the number of the stack, and whether that is not all of it.
  uint32_t id() const {
    return id_;
  }
  bool truncated() const {
    return truncated_;
  }

  // Walks at most `max` frames and keeps them. 0, with nothing kept, if they do not lie on the task's own stack or are too
  // many.
  size_t walk(uint64_t frame_pointer, uint32_t max, const Cpu& cpu);
  const uint64_t* return_addresses() const {
    return return_addresses_;
  }
  // Ends what walk() began; without it nothing matches.
  void name(uint32_t id, bool truncated) {
    id_ = id;
    truncated_ = truncated;
    max_ = wanted_;
  }

  void forget() {
    max_ = 0;
  }

 private:
  // Why the walk ended.
  enum class End : uint8_t {
    kMax,      // nothing more was wanted
    kOutside,  // the next frame pointer leads out of the stack
    kZero,     // the next frame has no return address; its pointer is kept
  };

  bool outside(uint64_t next, uint64_t above) const {
    return next < above || next + 16 > top_ || (next & 7) != 0;
  }
  bool ends(uint64_t next) const;

  uint64_t top_;
  uint32_t max_;     // of the walk; 0: the entry is not valid
  uint32_t wanted_;  // the same, while it is being filled
  uint32_t count_;
  uint32_t id_;
  bool truncated_;
  End end_;
  uint64_t pointers_[kMaxFrames + 1];
  uint64_t return_addresses_[kMaxFrames + 1];
};
static_assert(sizeof(RecentStack) == 1024);

// Takes pages for `cpus` CPUs, or does without. No trace is begun, no tracer lock held.
void recent_stacks_open(uint32_t cpus);
void recent_stacks_close();

inline constexpr size_t kRecentPages = 4;  // for each CPU
using RecentPage = std::array<RecentStack, kPageSize / sizeof(RecentStack)>;
struct alignas(64) RecentStacks {
  std::array<RecentPage*, kRecentPages> pages;  // all, or none
};
extern RecentStacks recent_stacks[kMaxCpus];

// Where this CPU keeps the stack that begins at the frame, which must be on the current stack; nullptr if it keeps none.
// Interrupts off.
inline RecentStack* recent_stack(uint64_t frame_pointer, const Cpu& cpu) {
  const uint64_t mixed = frame_pointer >> 4 ^ reinterpret_cast<const uint64_t*>(frame_pointer)[1];
  RecentPage* page = recent_stacks[cpu.id].pages[mixed % kRecentPages];
  return page ? &(*page)[mixed / kRecentPages % std::tuple_size_v<RecentPage>] : nullptr;
}
