// The top stacks of a trace: the beginning of #mem/kmemtrace/NAME (docs/tracer.md).
//
// A dump has most bytes first and may be of any length, since it lists objects. Only its first
// groups are read, without their objects and the addresses in programs, so memory is bounded.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

struct StackGroup {
  std::string heading;             // "576 bytes in 3 allocations from stack"
  std::vector<std::string> lines;  // frames, innermost first; ages and contexts; which programs
};

struct TopStacks {
  std::string state;    // "off", "running", "stopped"
  std::string summary;  // "3 live, 576 bytes, 0 from before the trace, 1 stack"
  std::vector<StackGroup> groups;
  bool more = false;  // there are groups that were not read
};

// Parses the lines of a dump, one after the other.
class StackReader {
 public:
  static constexpr std::size_t kMostGroups = 20;

  // False if it needs no more lines.
  bool take(std::string_view line);
  TopStacks result() && { return std::move(stacks_); }

 private:
  void take_counters(std::string_view line);

  TopStacks stacks_;
  bool in_group_ = false;
};

// Of the source `name`, as it is now. std::runtime_error if it cannot be read.
TopStacks read_stacks(const std::string& name);
