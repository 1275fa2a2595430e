#include "probe/user_stacks_impl.h"

#include <algorithm>

#include "arch/x86_64/frames.h"
#include "intern/shared_tables.h"
#include "probe/options_impl.h"

// stack: a frame of up to 640 bytes, because the frames of a whole stack are on it. This code runs
// with interrupts off, where a probe was hit.
RecordedStack record_user_stack_of_call(bool returning, uint32_t depth, RecentUserStacks& recent) {
  uint64_t frames[kProbeMaxDepth + 1];
  const size_t count = walk_user_stack_of_call(returning, frames, depth + 1),
               kept = std::min<size_t>(count, depth);
  const StackId number = recent.number(
      frames, kept, [&] { return trace_stacks.intern(StackKind::kUser, frames, kept); });
  return {number, count > depth};
}

// stack: a frame of up to 640 bytes, because the frames of a whole stack are on it.
RecordedStack record_user_stack(uint32_t depth) {
  uint64_t frames[kProbeMaxDepth + 1];
  const size_t count = walk_user_stack(frames, frames, depth + 1);
  return {trace_stacks.intern(StackKind::kUser, frames, std::min<size_t>(count, depth)),
          count > depth};
}
