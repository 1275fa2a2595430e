// The command deadlock of #debug/ctl.
#pragma once

#include <string_view>

#include "lib/result.h"

// `text` is `N [behind=M]`. N tasks (2 to 100), the current one and N - 1 kernel tasks, each take a
// sleeping lock and then wait for the next one's lock, in a circle. M more kernel tasks (0 to 100)
// wait in a row: the first for the current task's lock, each other one for the lock of the task
// before it. The tasks wait forever, so the function returns only with an error, EINVAL or ENOMEM.
// A kernel that checks the lock order panics.
Result<void> debug_deadlock(std::string_view text);
