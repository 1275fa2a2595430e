// Finds the number of the current kernel stack.
//
// Usually the CPU's hint (stack_hints_impl.h) names the stack: the return addresses are compared
// with those of the stored stack while the frames are followed. Otherwise the frames are packed and
// hashed, and the stack is looked up in the stack table, or added.
#pragma once

#include <cstdint>
#include <utility>

#include "arch/x86_64/context.h"
#include "core/cpu.h"
#include "intern/shared_tables.h"
#include "intern/stack_hints_impl.h"
#include "lib/optimizer.h"
#include "slab_trace.h"

// Where a recorded stack begins: kFrame, at the given frame; kCallers, at the first frame after it
// that is not the allocator's.
enum class StackFrom : uint8_t { kFrame, kCallers };

// The current task's stack, from a frame on.
//
// A frame has two words: the address of the next frame, and the return address. A frame's position
// is counted from the highest address that a frame may have, so it is negative. So one unsigned
// comparison says whether the next frame lies above this one and below the end of the stack.
class TaskStack {
 public:
  [[gnu::always_inline]] explicit TaskStack(uint64_t frame_pointer)
      : last_(kernel_stack_top() - 16) {
    hide_value(last_);  // for traced: otherwise the compiler keeps last_ + 8, too
    at_ = frame_pointer - last_;
  }

  // Skips the frames that are not to be recorded. False if the first frame is not on the task's
  // stack, or no frame is left.
  [[gnu::always_inline]] bool begin(StackFrom from) {
    if (at_ < 16 - kKernelStackSize) [[unlikely]]
      return false;
    while (from == StackFrom::kCallers && in_allocator(word<uint64_t>(last_ + 8))) [[unlikely]] {
        if (!up()) [[unlikely]]
          return false;
      }
    return true;
  }
  // The CPU's hint for a stack whose first frame is `first`, and whose second one is the present
  // frame; the same as for other tasks' stacks at the same place in the code. At most `depth`
  // frames are recorded.
  [[gnu::always_inline]] StackTable::View& hint(const TaskStack& first,
                                                const StackDepth& depth) const {
    auto& hints = these_stack_hints().kernel;
    const auto place = static_cast<uint32_t>(first.at_) >> 4;
    return hints[(place + first.frame() + frame() + depth.shape()) % hints.size()];
  }
  // The return address in the present frame, packed.
  [[gnu::always_inline]] uint32_t frame() const { return word<uint32_t>(last_ + 8); }
  // Goes to the next frame; false if there is none.
  [[gnu::always_inline]] bool up() {
    uint64_t next = word<uint64_t>(last_) - last_;
    hide_value(next);  // for traced: otherwise the compiler keeps the frame's address, too
    if (next <= at_) return false;
    at_ = next;
    return true;
  }

  // Hides the position from the optimiser (lib/optimizer.h).
  [[gnu::always_inline]] void hide() { hide_value(at_); }

 private:
  template <typename Word>
  [[gnu::always_inline]] Word word(uint64_t base) const {
    return *reinterpret_cast<const Word*>(base + at_);
  }
  uint64_t last_;  // the highest address of a frame
  uint64_t at_;    // position of the present frame
};

// Compares the stack, from its second frame on, with a stored one. Returns the stored stack's
// number, perhaps with kStackTruncated, if the frames are the same, up to `depth`; otherwise 0.
[[gnu::always_inline]] inline uint64_t same_callers(TaskStack stack, StackTable::View stored,
                                                    const StackDepth& depth) {
  for (const uint32_t* word = stored.packed() + 1;; word += 8) {
    // For traced: otherwise the compiler keeps copies of these values in more registers.
    stack.hide();
    hide_value(word);
#pragma GCC unroll 8
    for (uint32_t i = 0; i < 8; i++) {
      if (stack.frame() != word[i]) [[unlikely]]
        return word[i] == 0 && stored.has(depth) ? number_of(stored.id()) | kStackTruncated : 0;
      if (!stack.up()) [[unlikely]]
        return word[i + 1] == 0 && stored.fits(depth) ? number_of(stored.id()) : 0;
    }
  }
}

inline constexpr uint32_t kPackStep = 12;  // frames between two looks at the depth
using PackedFrames = uint32_t[StackTable::kMaxFrames + kPackStep + 2];

// Packs the frames and returns their number and hash. If there are more than `depth`, returns
// depth + 1 or a larger number, and has packed at least `depth` frames.
[[gnu::always_inline]] inline std::pair<uint32_t, uint64_t> pack_all(TaskStack stack,
                                                                     uint32_t depth,
                                                                     PackedFrames& frames) {
  uint64_t hash = 0;
  for (uint32_t* to = frames; to <= frames + depth; to += kPackStep) {
#pragma GCC unroll 12
    for (uint32_t i = 0; i < kPackStep; i++) {
      hash = StackTable::hash_with(hash, to[i] = stack.frame());
      if (!stack.up()) return {static_cast<uint32_t>(to + i + 1 - frames), hash};
    }
  }
  return {depth + 1, 0};
}

// Packs and hashes the frames. If there are more than `depth`, sets *truncated.
[[gnu::always_inline]] inline StackTable::Packed pack(TaskStack stack, uint32_t depth,
                                                      PackedFrames& frames, bool* truncated) {
  auto [count, hash] = pack_all(stack, depth, frames);
  *truncated = count > depth;
  if (*truncated) [[unlikely]] {
    count = depth;
    hash = 0;
    for (uint32_t i = 0; i < count; i++) hash = StackTable::hash_with(hash, frames[i]);
  }
  frames[count] = frames[count + 1] = 0;
  return {frames, count, hash};
}

// learn_kernel_stack() for a stack that is not the current task's own; it gets no hint.
uint64_t intern_walked_stack(StackFrom from, uint64_t frame_pointer, StackDepth depth);
// Finds or adds the stack of the allocator's caller, beginning with the frame at `frame`; kNone if
// it cannot be stored. For a hook's slow path: turns probes off itself, and tops up the pool of
// pages. Otherwise as learn_kernel_stack().
StackId find_callers(const void* frame, StackDepth depth);

// Finds or adds the stack that begins at the frame at `frame_pointer`, and makes it the CPU's hint.
// At most `depth` frames are recorded. Returns the stack's number, with kStackTruncated if it has
// more frames; 0 if it cannot be stored. Interrupts and probes off, any context but NMI; after
// trace_memory_prepare(), between trace_users_add() and trace_users_drop(). Takes kInternTable.
// Bound: one walk of the recorded frames and two passes over one chain of the stack table.
[[gnu::always_inline]] inline uint64_t learn_kernel_stack(StackFrom from, uint64_t frame_pointer,
                                                          StackDepth depth) {
  TaskStack first(frame_pointer);
  if (!first.begin(from)) return intern_walked_stack(from, frame_pointer, depth);
  PackedFrames frames;
  bool truncated;
  const StackTable::View stored =
      trace_stacks.intern_packed(pack(first, depth.frames(), frames, &truncated));
  if (!stored) return 0;
  TaskStack second = first;
  if (stack_hints_change() && second.up()) second.hint(first, depth) = stored;
  return number_of(stored.id()) | (truncated ? kStackTruncated : 0);
}

// Returns the result of learn_kernel_stack() if the CPU's hint names the stack; otherwise 0. Calls
// nothing.
[[gnu::always_inline]] inline uint64_t hinted_kernel_stack(StackFrom from, uint64_t frame_pointer,
                                                           const StackDepth& depth) {
  TaskStack first(frame_pointer);
  if (!first.begin(from)) [[unlikely]]
    return 0;
  TaskStack second = first;
  if (!second.up()) [[unlikely]]
    return 0;
  const StackTable::View stored = second.hint(first, depth);
  if (first.frame() != stored.packed()[0]) [[unlikely]]
    return 0;
  return same_callers(second, stored, depth);
}
