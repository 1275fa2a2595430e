// The command line of kmemtop.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "sources.h"

struct Arguments {
  bool batch = false;                        // tables to standard output, one after the other
  bool all = false;                          // also sources that cannot be traced
  bool ascii = false;                        // no characters but ASCII
  std::optional<uint64_t> count;             // refreshes; endless if not given
  std::chrono::milliseconds interval{1000};  // between refreshes
  SortKey key = SortKey::kChange;
  SortOrder order = SortOrder::kUsual;
  std::string filter;  // text that names must contain
};

// Prints errors, and ends the program after one.
Arguments parse_arguments(int argc, char** argv);
