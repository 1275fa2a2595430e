// The command line of memleak.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

enum class Sort { kSize, kCount };

struct Arguments {
  // The source of allocations: the process of a command, another process, or the kernel.
  std::optional<uint64_t> pid;
  std::optional<std::string> command;
  bool of_process() const { return pid || command; }

  static constexpr uint64_t kAnySize =
      std::numeric_limits<uint32_t>::max();  // options that a trace's filter supports

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
  uint64_t sample = 0;           // bytes between two sampling points; 0: all are recorded
  uint64_t top = 10;
  Sort sort = Sort::kSize;
  uint64_t interval = 5;  // seconds
  std::optional<uint64_t> count;
  std::vector<std::string> sources;  // caches and arenas; empty: all
  std::string object;                // the process's program; empty: any
  std::string prefix;                // of the names of malloc and the like
};

// After bad arguments it prints the error and the usage, and ends the program with status 2; after
// -h with 0.
Arguments parse_arguments(int argc, char** argv);
