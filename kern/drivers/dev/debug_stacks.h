// #debug/stacks: the kernel stacks of tasks that do not run.
#pragma once

#include "lib/result.h"
#include "ns/device.h"

// Prints the stacks of all tasks. ENOMEM. May sleep.
Result<void> debug_print_stacks(Text& text);
