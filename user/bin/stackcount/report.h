// The text of a summary, in the format of bcc's stackcount.
#pragma once

#include <ostream>
#include <string>
#include <unordered_map>

#include "arguments.h"
#include "counts.h"
#include "symbols/kernel_symbols.h"
#include "symbols/program_symbols.h"

// Looks up the names of frames, and caches them because a few frames occur again and again.
class FrameNames {
 public:
  explicit FrameNames(bool with_offset) : with_offset_(with_offset) {}
  // Return "function", or "function+0x12" if offsets are shown; "[unknown]" if there is no symbol.
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
  std::unordered_map<std::string, Names> programs_;  // user frames, by build id and path
};

// Prints an empty line, except with -f. With -T prints the time.
void print_heading(std::ostream& out, const Arguments& arguments);
// Prints a stack with its number of calls. The process is shown if counts are separated by process
// and -p is not given:
//
//     leaf_function
//     caller
//       comm [pid]
//       12
//
// With -f prints one line: "comm;caller;leaf_function 12".
void print_count(std::ostream& out, const Arguments& arguments, FrameNames& names,
                 const Count& count);
// Prints the losses that are not 0.
void print_losses(std::ostream& out, const Losses& losses);
