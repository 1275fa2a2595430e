// Stacks that a CPU has recorded lately, so that the next allocation from the same place need not have its stack hashed.
//
// Each CPU has a small direct-mapped table. An entry holds, for each frame of a walk, the frame pointer and the return
// address, and the number of the stack. It is valid for an allocation if both are found again, for each frame, on the
// stack as it is now: the walk is repeated by comparing, six instructions a frame (the last one may lead elsewhere than it did, if that is as good), and its result is therefore the same.
// A shorter key would not do: stacks that differ only far up have the same return addresses and frame pointers below.
//
// Only frames on the current task's own stack are kept. An entry names the top of the stack that it was made on; as long
// as that is the CPU's, all its frame pointers lie on that stack and may be followed without looking at the bounds.
//
// An entry is used and filled by its CPU alone, with interrupts off. The pages are trace memory, taken when the first
// trace begins if they are a small part of the limit, and given back with the stack table.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "arch/x86_64/context.h"
#include "cpu.h"

class RecentStack {
 public:
  static constexpr size_t kMaxFrames = 61;

  constexpr RecentStack() = default;

  // Whether a walk of at most `max` frames from `frame_pointer` would find now what it found then. The stack's top is
  // `cpu.kernel_stack`.
  [[gnu::always_inline]] bool matches(uint64_t frame_pointer, uint32_t max, const Cpu& cpu) const {
    if (first_ != frame_pointer || key_ != cpu.kernel_stack + max) return false;
    const auto* memory = reinterpret_cast<const uint64_t*>(frame_pointer);
    const Frame* frame = frames_;
    uint32_t left = inner_;
    for (; left >= 4; left -= 4, frame += 4) {
      if (!same(memory, frame[0]) || !same(memory, frame[1]) || !same(memory, frame[2]) || !same(memory, frame[3]))
        return false;
    }
    for (; left > 0; left--, frame++) {
      if (!same(memory, *frame)) return false;
    }
    return memory[1] == frame->return_address && (memory[0] == frame->next || ends(memory, cpu.kernel_stack));
  }
  // What it found: the number of the stack, and whether that is not all of it.
  uint32_t id() const { return static_cast<uint32_t>(stack_); }
  bool truncated() const { return (stack_ & kTruncated) != 0; }
  // Both.
  static constexpr uint64_t kTruncated = uint64_t{1} << 32;
  uint64_t stack() const { return stack_; }

  // Walks at most `max` frames, keeps them and calls visit() with each return address. How many they are; 0, with nothing
  // kept, if they do not lie on the task's own stack or are too many.
  template <typename Visit>
  [[gnu::always_inline]] inline size_t walk(uint64_t frame_pointer, uint32_t max, const Cpu& cpu, Visit visit);
  // Ends what walk() began; without it nothing matches.
  void name(uint32_t id, bool truncated) {
    stack_ = id | (truncated ? kTruncated : 0);
    key_ = unnamed_key_;
  }

  constexpr void forget() { key_ = 0; }

 private:
  // Why the walk ended, when that is not where the last frame's pointer leads now as it did then.
  enum class End : uint32_t {
    kAnywhere,  // that pointer does not matter: nothing more was wanted, or it is that of a frame without a return address
    kOutside,  // it leads out of the stack
  };
  struct Frame {
    uint64_t return_address;
    uint64_t next;  // frame pointer
  };

  // Whether a frame is what it was; goes on to the next.
  [[gnu::always_inline]] static bool same(const uint64_t*& memory, const Frame& frame) {
    const uint64_t next = frame.next;
    if (memory[1] != frame.return_address || memory[0] != next) return false;
    memory = reinterpret_cast<const uint64_t*>(next);
    return true;
  }
  static bool outside(uint64_t next, uint64_t above, uint64_t top) {
    return next < above || next + 16 > top || (next & 7) != 0;
  }
  // The last frame leads elsewhere than it did.
  bool ends(const uint64_t* last, uint64_t top) const {
    return end_ == End::kAnywhere || outside(last[0], reinterpret_cast<uint64_t>(last) + 16, top);
  }

  // Tops of stacks are multiples of it, and no `max` is as large: their sum says both.
  static constexpr uint32_t kTopAlignment = 128;

  uint64_t key_ = 0;          // top of the stack plus `max` of the walk; 0: the entry is not valid
  uint64_t unnamed_key_ = 0;  // the same, while it is being filled
  uint64_t stack_ = 0;        // number and kTruncated
  uint64_t first_ = 0;        // frame pointer
  uint32_t inner_ = 0;        // frames before the last one
  End end_ = End::kOutside;
  Frame frames_[kMaxFrames] = {};
};
static_assert(sizeof(RecentStack) <= 1024);

template <typename Visit>
inline size_t RecentStack::walk(uint64_t frame_pointer, uint32_t max, const Cpu& cpu, Visit visit) {
  forget();
  const uint64_t top = cpu.kernel_stack;
  if (top % kTopAlignment != 0 || max >= kTopAlignment) return 0;
  first_ = frame_pointer;
  unnamed_key_ = top + max;
  end_ = End::kOutside;
  Frame* frame = frames_;
  Frame* const last = frames_ + std::min<size_t>(max, kMaxFrames);
  const uint64_t highest = top - 16;
  const uint64_t* memory = reinterpret_cast<const uint64_t*>(frame_pointer);
  if (outside(frame_pointer, top - kKernelStackSize, top)) return 0;
  size_t zero = 0;
  for (;;) {
    const uint64_t next = memory[0];
    const uint64_t return_address = memory[1];
    frame->return_address = return_address;
    frame->next = next;
    frame++;
    if (return_address == 0) [[unlikely]] {
      zero = 1;
      end_ = End::kAnywhere;
      break;
    }
    visit(return_address);
    if (frame == last) [[unlikely]] {
      if (max > kMaxFrames) return 0;
      end_ = End::kAnywhere;
      break;
    }
    if (next < reinterpret_cast<uint64_t>(memory + 2) || next > highest || (next & 7) != 0) break;
    memory = reinterpret_cast<const uint64_t*>(next);
  }
  inner_ = static_cast<uint32_t>(frame - frames_ - 1);
  return inner_ + 1 - zero;
}

// Takes pages for `cpus` CPUs, or does without. No trace is begun, no tracer lock held.
void recent_stacks_open(uint32_t cpus);
void recent_stacks_close();

inline constexpr size_t kRecentPages = 2;  // for each CPU
using RecentPage = std::array<RecentStack, kPageSize / sizeof(RecentStack)>;
inline constexpr size_t kRecentStacks = kRecentPages * std::tuple_size_v<RecentPage>;
struct alignas(64) RecentStacks {
  std::array<RecentStack*, kRecentStacks> stacks;  // all, or each is no_recent_stack, which nothing matches
  std::array<RecentPage*, kRecentPages> pages;
};
extern std::array<RecentStacks, kMaxCpus> recent_stacks;
extern RecentStack no_recent_stack;

// Where this CPU would keep the stack that begins at the frame, which must be on the current stack. Interrupts off.
inline RecentStack* recent_place(uint64_t frame_pointer, const Cpu& cpu) {
  const uint64_t mixed = frame_pointer >> 4 ^ reinterpret_cast<const uint64_t*>(frame_pointer)[1];
  return recent_stacks[cpu.id].stacks[mixed % kRecentStacks];
}
// The same; nullptr if it keeps none.
inline RecentStack* recent_stack(uint64_t frame_pointer, const Cpu& cpu) {
  RecentStack* const place = recent_place(frame_pointer, cpu);
  return place == &no_recent_stack ? nullptr : place;
}
