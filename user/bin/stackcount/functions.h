// The functions that match a pattern.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "pattern.h"

struct Functions {
  std::vector<std::string> words;  // in the syntax of the `count` command of #probe
  std::size_t count = 0;           // of functions; a kernel's name may match several
  std::size_t unprobeable = 0;     // match too, but cannot be probed
};

// std::runtime_error if the program is not there. `pid`: the C library is that of this process's
// program.
Functions find_functions(const Pattern& pattern, bool regular_expression,
                         std::optional<uint64_t> pid);
