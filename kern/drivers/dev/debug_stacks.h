// #debug/stacks: the kernel stacks of tasks that do not run.
#pragma once

#include "lib/result.h"
#include "ns/device.h"

// Prints at most 128 tasks, with the stacks of those that do not run, and how many others there
// are. ENOMEM. May sleep.
Result<void> debug_print_stacks(Text& text);
