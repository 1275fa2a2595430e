// The traces that memleak starts, and ends.
//
// A trace is started if it can be and is off; traces of other programs, running or stopped, are
// read and not changed. Several memleaks share the traces that any of them has started: the last
// one to end stops and resets them. Their shared state is in a folder that belongs to root,
// /tmp/.memleak: a file for each that runs, named by its PID; `started`, the names of the traces
// that any of them has started; and `lock`, which exists while one of them changes the others. A
// killed memleak leaves files and running traces there; the next one finds them, shares the traces
// like a living one's, and ends them with its own. A PID shows that a lock's owner is dead.
#pragma once

#include <cstddef>
#include <set>
#include <string>

#include "arguments.h"

class Traces {
 public:
  // std::runtime_error if one cannot be started; then none of these is left.
  explicit Traces(const Arguments& arguments);
  Traces(const Traces&) = delete;
  Traces& operator=(const Traces&) = delete;
  ~Traces();

  // The traces of memleak; others in a dump belong to other programs.
  bool is_ours(const std::string& name) const { return started_.contains(name); }

 private:
  void start(const Arguments& arguments);
  void leave();

  std::set<std::string> started_;  // by this one or another memleak
};
