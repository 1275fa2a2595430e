// The traces that memleak starts, and ends.
//
// A trace is started if it can be and is off; what somebody else has started, running or stopped,
// is looked at and left alone. Several memleaks share what any of them has started: the last one
// that ends stops and resets it. A folder that belongs to root, /tmp/.memleak, holds what they must
// know of each other: a file for each that runs, named by its PID, `started`, the names of the
// traces that any of them has started, and `lock`, which is there while one of them changes the
// others. What a memleak that was killed has left there, and left running, is found by the next
// one, shared by it like a living one's, and ended with it. A lock's owner is found dead by its
// PID.
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

  // Those of memleak; others in a dump are somebody else's.
  bool is_ours(const std::string& name) const { return started_.contains(name); }

 private:
  void start(const Arguments& arguments);
  void leave();

  std::set<std::string> started_;  // by this one or another memleak
};
