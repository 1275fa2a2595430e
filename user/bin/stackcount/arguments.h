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

  // True with -d if both stacks are shown: a line "--" then separates kernel and user stacks.
  bool with_delimiter() const { return delimited && kernel_stacks && user_stacks; }
};

// If an argument is bad, prints the error and the usage, and ends the program with status 2. With
// -h, prints the help and ends the program with status 0.
Arguments parse_arguments(int argc, char** argv);
