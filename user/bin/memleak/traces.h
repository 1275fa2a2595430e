// The kernel traces that memleak starts, stops and resets.
//
// memleak starts the traces that are off. If another program has started a trace, memleak reads the
// trace but does not change it, whether it is running or stopped. Several memleaks that run at the
// same time share their traces: the last memleak that ends stops and resets all of them. Their
// shared state is in the folder /tmp/.memleak, which belongs to root:
//
//   PID      a file for each running memleak
//   started  the names of the traces that memleaks have started
//   lock     exists while a memleak changes the other files; has the PID of that memleak, so that
//            others can remove the lock if its owner has died
//
// A killed memleak leaves its files, and its traces keep running. The next memleak finds these
// traces in `started`, uses them, and stops and resets them when it ends.
#pragma once

#include <cstddef>
#include <set>
#include <string>

#include "arguments.h"

class Traces {
 public:
  // Throws std::runtime_error if a trace cannot be started. Before it throws, stops and resets the
  // traces that memleaks have started, unless another memleak runs.
  explicit Traces(const Arguments& arguments);
  Traces(const Traces&) = delete;
  Traces& operator=(const Traces&) = delete;
  ~Traces();

  // True if a memleak has started the trace of the source `name`.
  bool is_ours(const std::string& name) const { return started_.contains(name); }

 private:
  void start(const Arguments& arguments);
  void leave();

  std::set<std::string> started_;  // sources whose traces this memleak or another one has started
};
