// A sweep: the command runs once for each allocation of each of its processes, and that allocation
// fails.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "counts.h"
#include "run.h"

// Every `step`-th allocation of a process, from number `first` on: several guests share a sweep.
struct Stride {
  uint64_t first = 1;
  uint64_t step = 1;
};

class Sweep {
 public:
  explicit Sweep(const Command& command) : command_(command) {}
  // Runs the command without failures until counts stay the same; prints `clean`. False, after
  // `grows` lines, if they do not. std::runtime_error if the command does not end.
  bool warm_up();
  // Tries all from `from` on. Prints its steps and findings (leaksweep.cc).
  void run(const Stride& share, const Target& from);

 private:
  bool try_one(const Target& target);
  void judge(const Target& target, const Outcome& outcome);
  void run_without_failure(const Target& target) const;
  bool fails_again(const Target& target, const Outcome& outcome) const;
  std::optional<std::string> trace(const Target& target, const Outcome& outcome,
                                   const Counts& risen);

  const Command& command_;
  Counts base_;                  // at rest, when nothing of the command is left
  uint64_t processes_ = 0;       // of the command, without failures
  std::set<std::string> known_;  // leaks that were traced
};
