// The file crime of #debug.
#pragma once

#include <string_view>

#include "lib/result.h"

// Executes the commands that debug_crime.cc describes, one per line. Parses all lines before
// executing the first. EINVAL, ENOMEM. May sleep.
Result<void> debug_crime_write(std::string_view text);
