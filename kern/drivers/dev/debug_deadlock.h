// The command deadlock of #debug/ctl.
#pragma once

#include <string_view>

#include "lib/result.h"

// `text` is `N [behind=M]`. N tasks (2 to 100), the current one and N - 1 kernel tasks, each take a
// sleeping lock and then wait for each other's in a circle. M more, up to 100, wait in a row behind
// the first. They wait forever: this returns only with an error, EINVAL or ENOMEM. A kernel that
// checks the lock order panics.
Result<void> debug_deadlock(std::string_view text);
