// The top stacks of a trace: the beginning of #mem/kmemtrace/NAME (docs/tracer.md).
//
// A dump has a group of lines for each stack. The stacks with the most outstanding bytes come
// first. A dump may be of any length, because it lists every object. To bound memory, only the
// first kMostGroups groups are read, and their lines with objects and program addresses are
// skipped.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

struct StackGroup {
  std::string heading;             // "576 bytes in 3 allocations from stack"
  std::vector<std::string> lines;  // frames, innermost first; then ages, contexts and programs
};

struct TopStacks {
  std::string state;    // "off", "running", "stopped"
  std::string summary;  // "3 live, 576 bytes, 0 not recorded, 1 stack"
  std::vector<StackGroup> groups;
  bool more = false;  // there are groups that were not read
};

// Parses the lines of a dump, one after the other.
class StackReader {
 public:
  static constexpr std::size_t kMostGroups = 20;

  // Takes the next line. False if no more lines are needed.
  bool take(std::string_view line);
  TopStacks result() && { return std::move(stacks_); }

 private:
  void take_counters(std::string_view line);

  TopStacks stacks_;
  bool in_group_ = false;
};

// Reads the top stacks of the source `name`. Throws std::runtime_error if the trace of the source
// cannot be read.
TopStacks read_stacks(const std::string& name);
