// The kernel traces that memleak starts, and ends.
//
// memleak starts the traces that are off. Traces that other programs have started, running or
// stopped, are read and not changed. Several memleaks share the traces that any of them has
// started: the last memleak to end stops and resets these traces. Their shared state is in
// /tmp/.memleak, a folder that belongs to root. It has a file for each running memleak, named by
// its PID; the file `started`, with the names of the traces that any memleak has started; and the
// file `lock`, which exists while a memleak changes the other files. A killed memleak leaves its
// files and running traces; the next memleak reads `started`, uses these traces, and ends them with
// its own. `lock` contains its owner's PID, so that the lock of a dead process can be removed.
#pragma once

#include <cstddef>
#include <set>
#include <string>

#include "arguments.h"

class Traces {
 public:
  // std::runtime_error if a trace cannot be started; traces started before it are then ended again.
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
