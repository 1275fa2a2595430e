// The text of a summary, in the original's format.
#pragma once

#include <ostream>
#include <string>
#include <unordered_map>

#include "arguments.h"
#include "counts.h"
#include "symbols/kernel_symbols.h"
#include "symbols/program_symbols.h"

// A cache of names of frames: the same few occur again and again.
class FrameNames {
 public:
  explicit FrameNames(bool with_offset) : with_offset_(with_offset) {}
  // "function", "function+0x12" with offsets, "[unknown]".
  const std::string& kernel(uint64_t frame);
  const std::string& user(const Count& count, uint64_t frame);

 private:
  using Names = std::unordered_map<uint64_t, std::string>;
  const std::string& remember(Names& names, uint64_t frame, const std::string& function,
                              uint64_t offset);

  const bool with_offset_;
  KernelSymbols kernel_symbols_;
  ProgramSymbols program_symbols_;
  Names kernel_;
  std::unordered_map<std::string, Names> programs_;  // by build id and path
};

// An empty line, and the time with -T.
void print_heading(std::ostream& out, const Arguments& arguments);
// A stack with its number of calls; the process if counts are separated by it, unless -p gives it:
//
//     leaf_function
//     caller
//       comm [pid]
//       12
//
// With -f a line: "comm;caller;leaf_function 12".
void print_count(std::ostream& out, const Arguments& arguments, FrameNames& names,
                 const Count& count);
// Lines about losses; none if there are none.
void print_losses(std::ostream& out, const Losses& losses);
