// Records stacks of programs, for hits.
#pragma once

#include <cstdint>

#include "intern/kernel_stacks.h"
#include "intern/recent_user_stacks.h"

// Both functions record at most `depth` frames, innermost first. The caller has interrupts and
// probes off, and the current task belongs to a process. The caller is a user of the shared tables
// (trace_users_add). Bound: a walk of the frames, and one chain of the stack table.

// Records the current process's stack when one of its functions is called or (`returning`) returns.
// `recent` belongs to the current CPU.
RecordedStack record_user_stack_of_call(bool returning, uint32_t depth, RecentUserStacks& recent);
// Records the stack with which the current process entered the kernel.
RecordedStack record_user_stack(uint32_t depth);
