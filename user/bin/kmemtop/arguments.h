// What kmemtop is told on its command line.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "sources.h"

struct Arguments {
  bool batch = false;                        // tables to standard output, one after the other
  bool all = false;                          // also what cannot be traced
  bool ascii = false;                        // no characters but ASCII
  std::optional<uint64_t> count;             // refreshes; without an end if not given
  std::chrono::milliseconds interval{1000};  // from one refresh to the next
  SortKey key = SortKey::kChange;
  SortOrder order = SortOrder::kUsual;
  std::string filter;  // what names must contain
};

// Prints what is wrong and ends the program if it must.
Arguments parse_arguments(int argc, char** argv);
