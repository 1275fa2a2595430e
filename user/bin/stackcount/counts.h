// What a session has counted: the file `counts` (docs/probes.md).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

// Calls that were made alike.
struct Count {
  uint64_t calls;
  std::vector<uint64_t> kernel, user;  // frames, the innermost first
  // With processes told apart.
  uint32_t pid = 0;
  std::string name, path, build_id;
};

// Calls that no count tells of, or not wholly.
struct Losses {
  uint64_t calls = 0;      // not counted
  uint64_t kept_out = 0;   // not counted: the tracer's own
  uint64_t stacks = 0;     // counted without a stack
  uint64_t processes = 0;  // counted without a process
  uint64_t truncated = 0;  // counted with the innermost frames only
};

struct Summary {
  std::vector<Count> counts;  // fewest calls first
  Losses losses;
};

// Reports of what has come since the one before. What the session knows stays there: were it cleared, calls made between the
// reading and the clearing would be lost.
class Counter {
 public:
  // `text` is the whole file. std::runtime_error if it is not what it should be.
  Summary since_last(std::string_view text);

 private:
  using Totals = std::map<std::string, uint64_t, std::less<>>;
  Totals calls_;     // by what follows the number in a line
  Totals counters_;  // of the head
};
