#include "probe/user_stacks_impl.h"

#include <algorithm>

#include "arch/x86_64/frames.h"
#include "intern/shared_tables.h"
#include "probe/options_impl.h"

RecordedStack record_kernel_stack(uint64_t frame_pointer, StackDepth depth) {
  uint64_t stack = hinted_kernel_stack(StackFrom::kFrame, frame_pointer, depth);
  if (stack == 0) [[unlikely]]
    stack = learn_kernel_stack(StackFrom::kFrame, frame_pointer, depth);
  return {stack_in(stack), (stack & kStackTruncated) != 0};
}

RecordedStack with_caller(RecordedStack kernel, TraceCaller caller) {
  const StackId user = stack_in(caller);
  kernel.user_stack_lost = caller == TraceCaller::kLost;
  if (user == StackId::kNone) return kernel;
  RecordedStack both = {user, kernel.truncated || is_truncated(caller)};
  if (kernel.id == StackId::kNone) return both;
  both.id = trace_stacks.intern_pair({kernel.id, user});
  if (both.id != StackId::kNone) return both;
  kernel.user_stack_lost = true;
  return kernel;
}

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
  const size_t count = walk_user_stack(frames, depth + 1);
  return {trace_stacks.intern(StackKind::kUser, frames, std::min<size_t>(count, depth)),
          count > depth};
}
