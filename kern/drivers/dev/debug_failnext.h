// The word failnext of #debug/alloc.
#pragma once

#include <cstdint>

#include "lib/result.h"
#include "ns/device.h"

// After `after` more, the next `count` allocations of the current task fail; 0 ends that. EBUSY if
// somebody else makes allocations fail. May sleep.
Result<void> debug_fail_next(uint64_t count, uint64_t after);
// The same for one of the processes of a sweep: the current one is the first, and each that one of
// them forks is the next. The order is for number `process`, which may come later. EBUSY too while
// a process of another sweep lives. May sleep.
Result<void> debug_fail_in_process(uint64_t count, uint64_t after, uint32_t process);
// Adds what is known of the current task's order, if it has had one, and of the last sweep, if
// there has been one. May sleep.
void debug_failnext_print(Text& text);
void debug_failnext_init();
