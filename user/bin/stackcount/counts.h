// What a session has counted: the file `counts` (docs/probes.md).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
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

// What has come since the last time.
struct Summary {
  struct Group {
    uint64_t calls;
    const std::string* what;  // parse_count() reads it
  };
  std::vector<Group> groups;  // fewest calls first
  Losses losses;
};

// Of `calls` calls, what a line of the file says behind their number: "kernel FRAME… user FRAME… pid N name NAME path PATH build
// DIGITS" and whatever keys may come; each may be missing.
Count parse_count(uint64_t calls, std::string_view what);

// Summaries of what has come since the one before. What the session knows stays there: were it cleared, calls made between the
// reading and the clearing would be lost.
class Counter {
 public:
  // A line of the file. std::runtime_error if it is not what it should be.
  void add(std::string_view line);
  // After the last line. The summary holds until the next add().
  Summary since_last();

 private:
  struct Number {
    uint64_t known = 0, now = 0;
    uint64_t grown() { return now - std::exchange(known, std::exchange(now, 0)); }
  };
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };
  using Numbers = std::unordered_map<std::string, Number, Hash, std::equal_to<>>;
  static void add(Numbers& numbers, std::string_view what, uint64_t number);

  Numbers calls_;     // by what follows the number in a line
  Numbers counters_;  // of the head
};
