// The command line of kmemtop.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "sources.h"

struct Arguments {
  bool batch = false;                        // tables to standard output, one after the other
  bool all = false;                          // shows sources that cannot be traced, too
  bool ascii = false;                        // draws with ASCII characters only
  std::optional<uint64_t> count;             // number of refreshes until the end; not set: no end
  std::chrono::milliseconds interval{1000};  // between refreshes
  SortKey key = SortKey::kChange;
  SortOrder order = SortOrder::kUsual;
  std::string filter;  // shows only sources whose names contain this text
};

// Parses the command line. After a bad argument, prints the error and ends the program.
Arguments parse_arguments(int argc, char** argv);
