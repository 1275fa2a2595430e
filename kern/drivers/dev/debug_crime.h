// The file crime of #debug.
#pragma once

#include <string_view>

#include "lib/result.h"

// Executes the commands that debug_crime.cc describes, one a line. Parses all lines before it
// executes the first. EINVAL, ENOMEM. May sleep.
Result<void> debug_crime_write(std::string_view text);
