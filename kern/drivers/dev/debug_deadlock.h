// The word deadlock of #debug/ctl.
#pragma once

#include <string_view>

#include "lib/result.h"

// `text` is `N [behind=M]`. N tasks, the current one and N - 1 of the kernel's, take a sleeping
// lock each and then wait for each other's in a circle, 2 to 100 of them; M more, up to 100, wait
// in a row behind the first. For good: returns only with an error, EINVAL or ENOMEM. Where the
// order of locks is checked the kernel panics.
Result<void> debug_deadlock(std::string_view text);
