// The traces of what grows.
#pragma once

#include <map>
#include <set>
#include <string>

#include "arguments.h"

// Starts them with -t. One that somebody else has started, running or stopped, is left alone, and
// so is one that was started here and that somebody has stopped or reset since. None is ended: who
// looks at a trace in the morning ends it.
class Traces {
 public:
  // Says so on standard error if they are wanted but cannot be started.
  explicit Traces(const Arguments& arguments);

  // Starts the trace of each that grows and has none. `states` are the traces' ("off", "running",
  // "stopped"), and are changed with what is started. What fails is said once, on standard error,
  // and tried again with the next call.
  void start(const std::set<std::string>& growing, std::map<std::string, std::string>& states);

 private:
  bool may_start_ = false;
  std::string command_;
  std::set<std::string> started_, failed_;
};
