// The command line of memleak.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

enum class Sort { kSize, kCount };

struct Arguments {
  // The report shows the allocations of the process `pid` or of the process that runs `command`. If
  // neither is set, it shows the allocations of the kernel.
  std::optional<uint64_t> pid;
  std::optional<std::string> command;
  bool of_process() const { return pid || command; }

  static constexpr uint64_t kAnySize =
      std::numeric_limits<uint32_t>::max();  // bytes: the largest limit that a trace's filter takes

  bool trace = false;
  bool show_allocations = false;
  bool combined_only = false;
  bool folded = false;
  bool since_mark = false;
  bool diff = false;
  bool with_self = false;
  bool user_stacks = false;
  uint64_t older_ms = 500;
  uint64_t min_size = 0;         // bytes
  uint64_t max_size = kAnySize;  // bytes
  uint64_t sample = 0;           // mean number of bytes between two samples; 0: no sampling
  uint64_t top = 10;
  Sort sort = Sort::kSize;
  uint64_t interval = 0;  // seconds; parse_arguments() replaces 0 by the default
  std::optional<uint64_t> count;
  std::vector<std::string> sources;  // caches and arenas; empty: all
  std::string object;                // -O: program that the process must run; empty: any
  std::string prefix;                // prefix of the names of malloc and the like
};

// Parses the command line. After a bad argument, prints the error and the usage, and ends the
// program with status 2. With -h, prints the help and ends the program with status 0.
Arguments parse_arguments(int argc, char** argv);
