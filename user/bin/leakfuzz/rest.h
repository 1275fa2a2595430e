// The system at rest: removes the remains of programs, then counts live objects.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

// Counts by name: the live objects of every cache that can be traced, except those of the page
// cache; the live references of every kind; and the live allocations of every arena but `base` and
// `page`. "bytes in pages" is the allocated bytes of the arena `page`, less this process's memory,
// the page tables of former kernel stacks, and the page cache.
using Counts = std::map<std::string, uint64_t>;

class Rest {
 public:
  // Stores the PIDs of the running processes, which clean_up() spares. Makes /tmp/fuzz.
  Rest();

  // Ends the processes that programs have left, removes the programs' binds and all files in #tmp,
  // and makes /tmp/fuzz again. Returns the PID of a process that cannot be killed, or 0.
  int clean_up();
  // start_traces() starts all traces, reset_traces() stops and resets them.
  void start_traces();
  void reset_traces();
  // Stops the traces and checks the identities of their dump: equations between the counters of a
  // source, for example seen = recorded + dropped + filtered. Returns a line for each equation that
  // does not hold.
  std::vector<std::string> broken_identities();
  // Waits until the caches are at rest, and counts.
  Counts counts();

 private:
  bool is_known(int pid) const { return known_.count(pid) != 0; }

  std::map<int, bool> known_;
};

// Returns the risen counts: "chan was 12, is 13".
std::vector<std::string> risen(const Counts& before, const Counts& after);
