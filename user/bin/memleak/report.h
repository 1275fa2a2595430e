// The text of a report.
#pragma once

#include <map>
#include <optional>
#include <ostream>
#include <utility>

#include "arguments.h"
#include "snapshot.h"
#include "symbols/kernel_symbols.h"
#include "symbols/program_symbols.h"

struct Symbols {
  ProgramSymbols programs;
  // Kernel symbols. They are read at their first use, because reports of processes do not use them.
  const KernelSymbols& kernel() {
    if (!kernel_symbols) kernel_symbols.emplace();
    return *kernel_symbols;
  }
  std::optional<KernelSymbols> kernel_symbols;
};

// Prints a report in the format of bcc's memleak: a heading with the time; with -a, a line for each
// allocation, the smallest first; the top stacks, the largest last; and a line with the counts of
// what the report leaves out.
//
//   [11:16:33] Top 2 stacks with outstanding allocations:
//   <tab>addr = ffff800001234000 size = 16
//   <tab>80 bytes in 5 allocations from stack
//   <tab><tab>leak_at_depth+0x1d [kernel]
//   Left out: dropped 0, …
//
// `stacks` has the sums to print: without --diff, the sums of `snapshot`; with --diff, the changes
// since the last report, which are printed with signs.
void print_report(std::ostream& out, const Arguments& arguments, Symbols& symbols,
                  const Snapshot& snapshot, const std::map<StackKey, Sum>& stacks);
// Prints a line for each stack: the functions from the outermost to the innermost, then the bytes
// of the stack's objects or, with --sort count, the number of the objects. Stacks with the same
// functions share a line.
void print_folded(std::ostream& out, const Arguments& arguments, Symbols& symbols,
                  const Snapshot& snapshot);
// Prints the line with the counts of what a report leaves out. `hidden` has the sums of the stacks
// that are not among the top stacks.
void print_left_out(std::ostream& out, const Snapshot& snapshot, const std::vector<Sum>& hidden);

// The reports of one run, one after the other.
class Reports {
 public:
  Reports(const Arguments& arguments, Symbols& symbols)
      : arguments_(arguments), symbols_(symbols) {}
  // With --diff: sets the snapshot that the first report is compared with.
  void start(Snapshot snapshot) { before_ = std::move(snapshot.stacks); }
  // Prints to standard output; the last line of folded reports goes to standard error. Throws
  // std::runtime_error if the output cannot be written.
  void print(Snapshot snapshot);

 private:
  const Arguments& arguments_;
  Symbols& symbols_;
  std::map<StackKey, Sum> before_;
};
