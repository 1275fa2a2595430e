// The file crime of #debug.
#pragma once

#include <string_view>

#include "lib/result.h"

// Executes lines as in debug_crime.cc; parses all before the first is done. EINVAL, ENOMEM. May
// sleep.
Result<void> debug_crime_write(std::string_view text);
