// The traces of growing sources.
#pragma once

#include <map>
#include <set>
#include <string>

#include "arguments.h"

// Starts them with -t. A trace that another program has started, running or stopped, is not
// changed, even if it was first started here. Traces are not ended here: the person who reads a
// trace in the morning ends it.
class Traces {
 public:
  // Prints on standard error if traces are wanted but cannot be started.
  explicit Traces(const Arguments& arguments);

  // Starts the trace of each growing source that has none. `states` are the traces' states ("off",
  // "running", "stopped"), and are updated. An error is printed once, on standard error; the next
  // call tries again.
  void start(const std::set<std::string>& growing, std::map<std::string, std::string>& states);

 private:
  bool may_start_ = false;
  std::string command_;
  std::set<std::string> started_, failed_;
};
