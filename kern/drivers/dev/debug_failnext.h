// The command failnext of #debug/alloc.
#pragma once

#include <cstdint>

#include "lib/result.h"
#include "ns/device.h"

// After `after` successful allocations, the next `count` allocations of the current task fail.
// `count` 0 ends an earlier injection. EBUSY if another facility injects failures. May sleep.
Result<void> debug_fail_next(uint64_t count, uint64_t after);
// Begins a sweep: the current process is number 1, and each fork by a process of the sweep gives
// the next number to the child. A new thread counts as a process. In process number `process`,
// which may be forked later, the first `after` allocations succeed and the next `count` allocations
// fail. EBUSY if another facility injects failures, or while a process of another sweep lives. May
// sleep.
Result<void> debug_fail_in_process(uint64_t count, uint64_t after, uint32_t process);
// Prints the current task's injection, if the task has had one, and the last sweep, if there has
// been a sweep. May sleep.
void debug_failnext_print(Text& text);
void debug_failnext_init();
