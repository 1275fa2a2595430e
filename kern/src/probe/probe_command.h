// Parses the commands of #probe/N/ctl: docs/probes.md is the manual. Nothing here knows which
// functions exist.
#pragma once

#include <cstdint>
#include <string_view>

#include "lib/result.h"
#include "probe/probe_options.h"
#include "probe/probe_rule.h"

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
  std::string_view functions;  // of the first five words: names, with blanks between them; one of
                               // kAlloc and kFree
  ProbeAllocRule rule;         // for kAlloc
  uint8_t address;             // for kFree: the argument that is the object
  ProbeStacks stacks;          // for kStacks
  uint64_t number;             // for kDepth, kPid, kCpu, kMin, kMax and kSample
};

// Cuts the next line with a command off the front of *text and parses it. False at the end. EINVAL,
// with an error string.
Result<bool> probe_next_command(std::string_view* text, ProbeCommand* command);

// A function as it was typed.
struct ProbeFunctionName {
  bool user;
  std::string_view name;  // a kernel function's may be a pattern
  std::string_view path;  // of the program; path, address and returns only of a program's function
  uint64_t address;
  std::string_view returns;  // addresses, separated by commas; may be empty
};
// Cuts the next one off the front of *functions; false at the end. EINVAL, with an error string.
Result<bool> probe_next_function(std::string_view* functions, ProbeFunctionName* function);
// Cuts the next address off the front of `returns` as checked by probe_next_function; false at the
// end.
bool probe_next_return(std::string_view* returns, uint64_t* address);

// In the pattern, `*` matches any characters, `?` any one. Time is linear; with several `*`, the
// product of the lengths.
bool probe_matches(std::string_view pattern, std::string_view name);
