// A dump's outstanding allocations, filtered by memleak's options and grouped by stack.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "arguments.h"
#include "process.h"
#include "tool/dump.h"
#include "traces.h"

// Identifies a stack by its frames, because stack ids are valid in one dump only.
struct StackKey {
  std::vector<uint64_t> kernel;  // return addresses, innermost first; empty for allocations of a
                                 // process (-p, -c)
  std::vector<uint64_t> user;    // return addresses in the program; set with -U, -p and -c
  std::string program;           // the path of the program with the stack `user`
  std::string build_id;          // bytes of that program's build id
  auto operator<=>(const StackKey&) const = default;
};

// The sum of a stack's records. If the trace is sampled, this is an estimate from the samples.
struct Sum {
  double bytes = 0;
  double objects = 0;
};

struct Allocation {
  uint64_t address;
  uint64_t size;  // bytes asked for
};

// Counts of allocations that a report does not show.
struct LeftOut {
  // Counters of the traces (docs/tracer.md).
  uint64_t dropped = 0, filtered = 0, untracked = 0, unmatched = 0, stacks_lost = 0,
           contexts_lost = 0, truncated = 0;
  // Records that an option excluded.
  uint64_t younger = 0, before_mark = 0, other_sizes = 0, own = 0;
  // How many traces in the dump were started by a memleak, and how many by other programs.
  uint64_t ours = 0, others = 0;
  bool sampled = false;
  std::string process;  // with -p and -c: state of the process, printed instead of ours and others
};

struct Snapshot {
  std::map<StackKey, Sum> stacks;
  std::vector<Allocation> allocations;  // filled with -a
  LeftOut left_out;
};

// Makes a snapshot of the kernel's traces.
Snapshot take_snapshot(const Arguments& arguments, const Dump& dump, const Traces& traces);
// Makes a snapshot of a process that runs `program`. `process` describes the state of the process,
// as text for the report.
Snapshot take_snapshot(const Arguments& arguments, const Dump& dump, const ProcessState& program,
                       const std::string& process);
// The changes of the stacks' sums from `before` to `after`. Unchanged stacks are left out.
std::map<StackKey, Sum> difference(const std::map<StackKey, Sum>& after,
                                   const std::map<StackKey, Sum>& before);
