// Records stacks for hits.
#pragma once

#include <cstdint>

#include "intern/kernel_stacks.h"
#include "intern/recent_user_stacks.h"

// A recorded stack, or a pair of a kernel stack and a user stack.
struct RecordedStack {
  StackId id = StackId::kNone;   // kNone: the stack could not be stored
  bool truncated = false;        // the stack, or one of the pair, has more frames than are recorded
  bool user_stack_lost = false;  // the user stack, or the pair, could not be stored
};

// Records the kernel stack of a hit, from the frame at `frame_pointer` on.
RecordedStack record_kernel_stack(uint64_t frame_pointer, StackDepth depth);
// Adds the user stack of `caller` (CurrentContext::caller) to a recorded kernel stack, if there is
// one. `kernel.id` may be kNone.
RecordedStack with_caller(RecordedStack kernel, TraceCaller caller);

// The next two functions record at most `depth` frames, innermost first. The caller has interrupts
// and probes off, and the current task belongs to a process. The caller is a user of the shared
// tables (trace_users_add). Bound: a walk of the frames, and one chain of the stack table.

// Records the current process's stack when one of its functions is called or (`returning`) returns.
// `recent` belongs to the current CPU.
RecordedStack record_user_stack_of_call(bool returning, uint32_t depth, RecentUserStacks& recent);
// Records the stack with which the current process entered the kernel.
RecordedStack record_user_stack(uint32_t depth);
