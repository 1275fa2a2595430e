// A sweep runs the command once for each kernel allocation that its processes make. In each run
// a different one of these allocations fails.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "counts.h"
#include "run.h"

// Selects every `step`-th allocation of a process, from number `first` on, so that several guests
// can share a sweep.
struct Stride {
  uint64_t first = 1;
  uint64_t step = 1;
};

class Sweep {
 public:
  explicit Sweep(const Command& command) : command_(command) {}
  // Runs the command without failures until no count rises any more; then prints `clean`. If counts
  // keep rising, prints `grows` lines and returns false. Throws std::runtime_error if the command
  // does not end.
  bool warm_up();
  // Lets one allocation after the other fail, beginning with `from`. Prints a line for each step
  // and finding (leaksweep.cc).
  void run(const Stride& share, const Target& from);

 private:
  bool try_one(const Target& target);
  void judge(const Target& target, const Outcome& outcome);
  void run_without_failure(const Target& target) const;
  bool fails_again(const Target& target, const Outcome& outcome) const;
  std::optional<std::string> trace(const Target& target, const Outcome& outcome,
                                   const Counts& risen);

  const Command& command_;
  Counts base_;                  // counts at rest before the next failure
  uint64_t processes_ = 0;       // number of processes in a run without failures
  std::set<std::string> known_;  // keys of the leaks traced so far (key_of)
};
