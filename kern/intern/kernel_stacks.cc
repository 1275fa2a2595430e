#include "intern/kernel_stacks.h"

#include <algorithm>
#include <utility>

#include "arch/x86_64/frames.h"
#include "core/probe_guard.h"

namespace {

constexpr uint32_t kStep = 4;  // frames between two looks at the depth
using Frames = uint32_t[StackTable::kMaxFrames + kStep + 2];

// Packs the frames and returns their number and hash. If there are more than `depth`, returns
// depth + 1 or a larger number, and has packed at least `depth` frames.
[[gnu::always_inline]] inline std::pair<uint32_t, uint64_t> pack_all(TaskStack stack,
                                                                     uint32_t depth,
                                                                     Frames& frames) {
  uint64_t hash = 0;
  for (uint32_t* to = frames; to <= frames + depth; to += kStep) {
#pragma GCC unroll 4
    for (uint32_t i = 0; i < kStep; i++) {
      hash = StackTable::hash_with(hash, to[i] = stack.frame());
      if (!stack.up()) return {static_cast<uint32_t>(to + i + 1 - frames), hash};
    }
  }
  return {depth + 1, 0};
}

// Packs and hashes the frames. If there are more than `depth`, sets *truncated.
[[gnu::always_inline]] inline StackTable::Packed pack(TaskStack stack, uint32_t depth,
                                                      Frames& frames, bool* truncated) {
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

// Walks and interns a stack that is not the current task's own.
// stack: a frame of up to 640 bytes, because the frames of a whole stack are on it. This code runs
// with interrupts off, in hooks, where no memory can be allocated.
[[gnu::noinline, gnu::cold]] uint64_t walk_stack(StackFrom from, uint64_t frame_pointer,
                                                 uint32_t depth) {
  uint64_t frames[StackTable::kMaxFrames + 1 + kAllocatorFrames];
  const uint32_t skipped = from == StackFrom::kCallers ? kAllocatorFrames : 0;
  const size_t count = walk_kernel_stack(frame_pointer, frames, depth + 1 + skipped);
  size_t first = 0;
  while (from == StackFrom::kCallers && first < count && in_allocator(frames[first])) first++;
  const size_t callers = count - first, recorded = std::min<size_t>(callers, depth);
  const StackId id = trace_stacks.intern(StackKind::kKernel, frames + first, recorded);
  return number_of(id) | (callers > recorded ? kStackTruncated : 0);
}

}  // namespace

uint64_t learn_kernel_stack(StackFrom from, uint64_t frame_pointer, StackDepth depth) {
  TaskStack first(frame_pointer);
  if (!first.begin(from)) return walk_stack(from, frame_pointer, depth.frames());
  Frames frames;
  bool truncated;
  const StackTable::View stored =
      trace_stacks.intern_packed(pack(first, depth.frames(), frames, &truncated));
  if (!stored) return 0;
  TaskStack second = first;
  if (second.up()) set_stack_hint(second.hint(first), stored);
  return number_of(stored.id()) | (truncated ? kStackTruncated : 0);
}
