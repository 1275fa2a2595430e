// The command deadlock of #debug/ctl.
#pragma once

#include <string_view>

#include "lib/result.h"

// Makes a deadlock. `text` is `N [behind=M]`. N tasks (2 to 100) form a circle: the current task
// and N - 1 kernel tasks. Each takes a sleeping lock and then waits for the lock of the next task.
// M more kernel tasks (0 to 100) form a row. The first waits for the lock of the current task, each
// further task for the lock of the task before it. The tasks wait forever, so the function returns
// only with an error, EINVAL or ENOMEM. A kernel that checks the lock order panics.
Result<void> debug_deadlock(std::string_view text);
