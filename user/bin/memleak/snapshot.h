// What a dump says of outstanding allocations, grouped by stack, after memleak's options.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "arguments.h"
#include "dump.h"
#include "process.h"
#include "traces.h"

// Numbers of stacks mean something in one dump only, so a stack is its frames.
struct StackKey {
  std::vector<uint64_t> kernel;  // return addresses, the innermost caller's first; none of a
                                 // process's own allocations
  std::vector<uint64_t> user;    // with -U, and of a process's own
  std::string program;           // the path of whose stack `user` is
  std::string build_id;          // and the bytes of its build id
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
  uint64_t dropped = 0, filtered = 0, untracked = 0, unmatched = 0, stacks_lost = 0,
           contexts_lost = 0, truncated = 0;
  // Records that an option kept out.
  uint64_t younger = 0, before_mark = 0, other_sizes = 0, own = 0;
  // Traces.
  uint64_t ours = 0, others = 0;
  bool sampled = false;
  std::string process;  // with -p and -c, in place of numbers of traces: what has become of it
};

struct Snapshot {
  std::map<StackKey, Sum> stacks;
  std::vector<Allocation> allocations;  // with -a
  LeftOut left_out;
};

// Of the kernel's traces.
Snapshot take_snapshot(const Arguments& arguments, const Dump& dump, const Traces& traces);
// Of a process: `program` is what it runs, `process` what is to be said of it.
Snapshot take_snapshot(const Arguments& arguments, const Dump& dump, const ProcessState& program,
                       const std::string& process);
// The stacks of `after` and `before` with what has changed, and nothing else.
std::map<StackKey, Sum> difference(const std::map<StackKey, Sum>& after,
                                   const std::map<StackKey, Sum>& before);
