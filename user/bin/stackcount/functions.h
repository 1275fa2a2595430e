// The functions that match a pattern.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "pattern.h"

struct Functions {
  std::vector<std::string> words;  // as a session's `count` command takes them (docs/probes.md)
  std::size_t count = 0;           // number of functions; more than words if they share names
  std::size_t unprobeable = 0;     // functions that match, but cannot be probed
};

// With `pid`, the pattern's program "c" is the C library inside that process's program.
// std::runtime_error if the program is not there.
Functions find_functions(const Pattern& pattern, bool regular_expression,
                         std::optional<uint64_t> pid);
