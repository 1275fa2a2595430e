// The text of a summary, as the original prints it.
#pragma once

#include <ostream>

#include "arguments.h"
#include "counts.h"
#include "symbols/kernel_symbols.h"
#include "symbols/program_symbols.h"

struct Symbols {
  KernelSymbols kernel;
  ProgramSymbols programs;
};

// An empty line; the time, with -T; and for each stack, those with most calls last:
//
//     leaf_function
//     caller
//       comm [pid]      if processes are told apart, unless -p says which
//       12
//
// With -f a line for each: "comm;caller;leaf_function 12".
void print_summary(std::ostream& out, const Arguments& arguments, Symbols& symbols, const Summary& summary);
// A line that says what is missing; none if nothing is.
void print_losses(std::ostream& out, const Losses& losses);
