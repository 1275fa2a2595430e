// The system at rest: what programs have left is removed, then it is looked at.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

// Live objects of every cache, what is live of every arena, and the bytes of pages that nothing of
// these has, by name.
using Counts = std::map<std::string, uint64_t>;

class Rest {
 public:
  // What runs now is not the programs'. Makes /tmp/fuzz.
  Rest();

  // Ends the processes that programs have left, takes away what they have bound and put into #tmp,
  // and makes /tmp/fuzz anew. Returns the PID of a process that cannot be killed, or 0.
  int clean_up();
  // All traces are started, or stopped and forgotten.
  void start_traces();
  void reset_traces();
  // What does not hold in the dump of all traces, as text.
  std::vector<std::string> broken_identities();
  // Once the caches have come to rest.
  Counts counts();

 private:
  bool is_known(int pid) const { return known_.count(pid) != 0; }

  std::map<int, bool> known_;
};

// "chan was 12, is 13": what has risen.
std::vector<std::string> risen(const Counts& before, const Counts& after);
