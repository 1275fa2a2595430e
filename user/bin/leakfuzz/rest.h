// Brings the system to rest: removes what programs have left. Then counts the live objects.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

// Counts by name. Each cache has the number of its live objects; caches that cannot be traced, and
// the two caches of the page cache, are left out. Each class of references has the number of its
// live references. Each arena has the number of its live allocations; `base` and `page` are left
// out. The count "bytes in pages" is the allocated bytes of the arena `page`, without the memory of
// this process, the page tables of kernel stacks, and the page cache.
using Counts = std::map<std::string, uint64_t>;

class Rest {
 public:
  // Stores the PIDs of the running processes, which clean_up() spares. Then calls clean_up().
  Rest();

  // Kills the processes that programs have left, removes the programs' binds and all files in #tmp,
  // and makes /tmp/fuzz again. Returns the PID of a process that cannot be killed; 0 if there is
  // none.
  int clean_up();
  // The files that were in use when the last clean_up() had killed all processes (in_use.h).
  const std::vector<std::string>& in_use() const { return in_use_; }
  // start_traces() starts all traces, also those of references; reset_traces() stops and resets
  // all.
  void start_traces();
  void reset_traces();
  // Stops the traces and checks the identities in their dump. An identity is an equation between
  // the counters of a source, for example seen = recorded + dropped + filtered. Returns a line for
  // each wrong equation.
  std::vector<std::string> broken_identities();
  // Checks the traces of references that run and that have run since boot (`trace=` on the kernel
  // command line). They have a record of each reference and know each one that is put. Returns a
  // line for each trace that does not.
  std::vector<std::string> broken_boot_traces();
  // Waits until all delayed frees are done, then counts.
  Counts counts();

 private:
  bool is_known(int pid) const { return known_.count(pid) != 0; }

  std::map<int, bool> known_;
  std::vector<std::string> in_use_;
};

// Returns a line for each count that is higher in `after`: "chan was 12, is 13".
std::vector<std::string> risen(const Counts& before, const Counts& after);
