// What is written to #debug/crime.
#pragma once

#include <string_view>

#include "lib/result.h"

// Lines of debug_crime.cc; all are parsed before the first is done. EINVAL, ENOMEM. May sleep.
Result<void> debug_crime_write(std::string_view text);
