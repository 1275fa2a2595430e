// A dump's outstanding allocations, grouped by stack, after memleak's options.
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

// Numbers of stacks are valid in one dump only, so the frames identify a stack.
struct StackKey {
  std::vector<uint64_t> kernel;  // return addresses, the innermost caller's first; none of a
                                 // process's own allocations
  std::vector<uint64_t> user;    // with -U, and of a process's own
  std::string program;           // the path of the program with the stack `user`
  std::string build_id;          // and the bytes of its build id
  auto operator<=>(const StackKey&) const = default;
};

// The total that a stack's records represent: their sum, unless their trace is sampled.
struct Sum {
  double bytes = 0;
  double objects = 0;
};

struct Allocation {
  uint64_t address;
  uint64_t size;  // bytes asked for
};

// Losses and omissions.
struct LeftOut {
  // Counters of the traces (docs/tracer.md).
  uint64_t dropped = 0, filtered = 0, untracked = 0, unmatched = 0, stacks_lost = 0,
           contexts_lost = 0, truncated = 0;
  // Records that an option excluded.
  uint64_t younger = 0, before_mark = 0, other_sizes = 0, own = 0;
  // Traces.
  uint64_t ours = 0, others = 0;
  bool sampled = false;
  std::string process;  // with -p and -c, in place of numbers of traces: the state of the process
};

struct Snapshot {
  std::map<StackKey, Sum> stacks;
  std::vector<Allocation> allocations;  // with -a
  LeftOut left_out;
};

// Of the kernel's traces.
Snapshot take_snapshot(const Arguments& arguments, const Dump& dump, const Traces& traces);
// Of a process: `program` is its program, `process` the text about it.
Snapshot take_snapshot(const Arguments& arguments, const Dump& dump, const ProcessState& program,
                       const std::string& process);
// The changes of the stacks from `before` to `after`, without unchanged ones.
std::map<StackKey, Sum> difference(const std::map<StackKey, Sum>& after,
                                   const std::map<StackKey, Sum>& before);
