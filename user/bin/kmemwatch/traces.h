// The traces of growing sources.
#pragma once

#include <map>
#include <set>
#include <string>

#include "arguments.h"

// With -t, starts the kernel's trace of each growing source if the trace is off. Each trace is
// started at most once. Traces that are running or stopped are not changed. kmemwatch never ends a
// trace, because the user wants to read it afterwards.
class Traces {
 public:
  // Prints an error on standard error if traces are wanted but cannot be started.
  explicit Traces(const WatchArguments& arguments);

  // Starts the trace of each source in `growing` whose trace is off. `states` has the trace state
  // of each source ("off", "running", "stopped") and is updated. The first error of a source is
  // printed on standard error; the next call tries again.
  void start(const std::set<std::string>& growing, std::map<std::string, std::string>& states);

 private:
  bool may_start_ = false;
  std::string command_;
  std::set<std::string> started_, failed_;
};
