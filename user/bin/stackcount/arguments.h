// The command line of stackcount.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

struct Arguments {
  std::string pattern;
  std::optional<uint64_t> pid;
  std::optional<uint64_t> cpu;
  std::optional<uint64_t> interval;  // seconds
  std::optional<uint64_t> duration;  // seconds
  bool timestamp = false;
  bool regexp = false;
  bool offset = false;
  bool per_process = false;
  bool kernel_stacks = true;
  bool user_stacks = true;
  bool verbose = false;
  bool delimited = false;
  bool folded = false;
  bool debug = false;

  // Only if there are stacks of both kinds.
  bool with_delimiter() const { return delimited && kernel_stacks && user_stacks; }
};

// After bad arguments it prints the error and the usage, and ends the program with status 2; after
// -h with 0.
Arguments parse_arguments(int argc, char** argv);
