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
  std::size_t count = 0;           // number of functions; kernel functions of one name share a word
  std::size_t unprobeable = 0;     // functions that match, but cannot be probed
};

// If the pattern's program is "c", searches the C library inside the program of process `pid`, or
// inside all programs if there is no `pid`. std::runtime_error if the program or the process does
// not exist.
Functions find_functions(const Pattern& pattern, bool regular_expression,
                         std::optional<uint64_t> pid);
