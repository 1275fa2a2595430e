// Parses the commands of #probe/N/ctl: docs/probes.md is the manual. Nothing here knows which
// functions exist.
#pragma once

#include <cstdint>
#include <string_view>

#include "lib/result.h"
#include "probe/options_impl.h"
#include "probe/rule_impl.h"

enum class ProbeWord : uint8_t {
  kCount,
  kEvent,
  kEventReturn,
  kAlloc,
  kFree,
  kWatchMemory,
  kStacks,
  kDepth,
  kProcesses,
  kThreads,
  kPid,
  kCpu,
  kMin,
  kMax,
  kSample,
  kStart,
  kStop,
  kClear
};

struct ProbeCommand {
  ProbeWord word;
  std::string_view functions;  // used by kCount, kEvent, kEventReturn, kAlloc and kFree: names of
                               // functions, separated by blanks; kAlloc and kFree have one name
  ProbeAllocRule rule;         // used by kAlloc
  uint8_t address;             // used by kFree: number of the argument with the object
  ProbeStacks stacks;          // used by kStacks
  uint64_t number;             // used by kDepth, kPid, kCpu, kMin, kMax and kSample
};

// Cuts the next line with a command off the front of *text and parses it. False at the end of the
// text. EINVAL, with an error string.
Result<bool> probe_next_command(std::string_view* text, ProbeCommand* command);

// A function that is named in the text of a command.
struct ProbeFunctionName {
  bool user;
  std::string_view name;  // the name of a kernel function may be a pattern
  // For functions of programs only:
  std::string_view path;     // path of the program
  uint64_t address;          // address of the function
  std::string_view returns;  // addresses of its `ret`s, separated by commas; may be empty
};
// Cuts the next function off the front of *functions; false at the end of the text. EINVAL, with an
// error string.
Result<bool> probe_next_function(std::string_view* functions, ProbeFunctionName* function);
// Cuts the next address off the front of `returns`, which probe_next_function has checked; false at
// the end of the text.
bool probe_next_return(std::string_view* returns, uint64_t* address);

// In the pattern, `*` matches any number of characters, `?` any one character. Time is at most
// proportional to the product of the lengths of pattern and name.
bool probe_matches(std::string_view pattern, std::string_view name);
