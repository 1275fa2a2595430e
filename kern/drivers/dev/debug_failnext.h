// The command failnext of #debug/alloc.
#pragma once

#include <cstdint>

#include "lib/result.h"
#include "ns/device.h"

// After `after` successful allocations, the next `count` allocations of the current task fail; 0
// ends that. EBUSY if another facility injects failures. May sleep.
Result<void> debug_fail_next(uint64_t count, uint64_t after);
// The same for one process of a sweep: the current process is number 1, and each fork in the sweep
// adds the next. The order is for number `process`, which may start later. EBUSY too while a
// process of another sweep lives. May sleep.
Result<void> debug_fail_in_process(uint64_t count, uint64_t after, uint32_t process);
// Prints the current task's order, if it has had one, and the last sweep, if there has been one.
// May sleep.
void debug_failnext_print(Text& text);
void debug_failnext_init();
