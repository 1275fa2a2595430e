#include "intern/kernel_stacks.h"

#include <algorithm>

#include "arch/x86_64/frames.h"
#include "core/probe_guard.h"
#include "intern/trace_memory.h"

// stack: a frame of up to 640 bytes, because the frames of a whole stack are on it. This code runs
// with interrupts off, in hooks, where no memory can be allocated.
uint64_t intern_walked_stack(StackFrom from, uint64_t frame_pointer, StackDepth limit) {
  const uint32_t depth = limit.frames();
  uint64_t frames[StackTable::kMaxFrames + 1 + kAllocatorFrames];
  const uint32_t skipped = from == StackFrom::kCallers ? kAllocatorFrames : 0;
  const size_t count = walk_kernel_stack(frame_pointer, frames, depth + 1 + skipped);
  size_t first = 0;
  while (from == StackFrom::kCallers && first < count && in_allocator(frames[first])) first++;
  const size_t callers = count - first, recorded = std::min<size_t>(callers, depth);
  const StackId id = trace_stacks.intern(StackKind::kKernel, frames + first, recorded);
  return number_of(id) | (callers > recorded ? kStackTruncated : 0);
}

StackId find_callers(const void* frame, StackDepth depth) {
  const ProbesOffHere no_hit;
  trace_memory_prepare();
  const auto frame_pointer = reinterpret_cast<uint64_t>(frame);
  const uint64_t stack = hinted_kernel_stack(StackFrom::kCallers, frame_pointer, depth);
  return stack_in(stack != 0 ? stack
                             : learn_kernel_stack(StackFrom::kCallers, frame_pointer, depth));
}
