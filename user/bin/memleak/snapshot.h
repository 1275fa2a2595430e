// What a dump says of outstanding allocations, grouped by stack, after memleak's options.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "arguments.h"
#include "dump.h"
#include "traces.h"

// Numbers of stacks mean something in one dump only, so a stack is its frames.
struct StackKey {
  std::vector<uint64_t> kernel;  // return addresses, the innermost caller's first
  std::vector<uint64_t> user;    // with -U
  std::string program;           // with -U: the path of whose stack `user` is
  std::string build_id;          // with -U: and the bytes of its build id
  auto operator<=>(const StackKey&) const = default;
};

// What a stack's records stand for: themselves, unless their trace is sampled.
struct Sum {
  double bytes = 0;
  double objects = 0;
};

struct Allocation {
  uint64_t address;
  uint64_t size;  // bytes asked for
};

// What was lost or left out.
struct LeftOut {
  // Counters of the traces (docs/tracer.md).
  uint64_t dropped = 0, filtered = 0, untracked = 0, unmatched = 0, stacks_lost = 0, contexts_lost = 0, truncated = 0;
  // Records that an option kept out.
  uint64_t younger = 0, before_mark = 0, other_sizes = 0, own = 0;
  // Traces.
  uint64_t ours = 0, others = 0;
  bool sampled = false;
};

struct Snapshot {
  std::map<StackKey, Sum> stacks;
  std::vector<Allocation> allocations;  // with -a
  LeftOut left_out;
};

Snapshot take_snapshot(const Arguments& arguments, const Dump& dump, const Traces& traces);
// The stacks of `after` and `before` with what has changed, and nothing else.
std::map<StackKey, Sum> difference(const std::map<StackKey, Sum>& after, const std::map<StackKey, Sum>& before);
