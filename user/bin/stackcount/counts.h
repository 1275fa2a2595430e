// The counts of a session: the file `counts` (docs/probes.md).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

// Calls with the same stack and process.
struct Count {
  uint64_t calls;
  std::vector<uint64_t> kernel, user;  // frames, the innermost first
  // If counts are separated by process.
  uint32_t pid = 0;
  std::string name, path, build_id;
};

// Calls that are missing or incomplete in the counts.
struct Losses {
  uint64_t calls = 0;      // not counted
  uint64_t kept_out = 0;   // not counted: the tracer's own
  uint64_t stacks = 0;     // counted without a stack
  uint64_t processes = 0;  // counted without a process
  uint64_t truncated = 0;  // counted with the innermost frames only
};

// A line of the file: `calls`, and the text behind the number: "kernel FRAME… user FRAME… pid N
// name NAME path PATH build DIGITS" and unknown keys; each may be missing.
Count parse_count(uint64_t calls, std::string_view what);

// Stacks by number, as a tree from the outermost frame on, so that stacks share prefixes: 16 bytes
// for each frame that differs. The functions of a kernel, called by all processes, have many
// stacks.
class StackTree {
 public:
  // The frames of a stack, innermost first. Equal stacks have equal numbers; 0: no frames.
  uint32_t number(const std::vector<uint64_t>& frames);
  std::vector<uint64_t> frames(uint32_t number) const;

 private:
  struct Node {
    uint64_t frame;
    uint32_t caller;
  };
  uint32_t called(uint32_t caller, uint64_t frame);
  static std::size_t hash(uint32_t caller, uint64_t frame);
  void grow();

  std::vector<Node> nodes_{{}};  // by number; the first is none
  std::vector<uint32_t> places_ =
      std::vector<uint32_t>(64);  // of nodes by hash, the next one if it is taken; 0: none
};

// Counts since the last summary.
struct Summary {
  struct Group {
    uint64_t calls;
    uint32_t kernel, user, process;  // Counter::count_of() has their meaning
  };
  std::vector<Group> groups;  // fewest calls first
  Losses losses;
};

// Summaries of the counts since the previous one. The session keeps its counts: clearing them would
// lose calls between the read and the clear.
class Counter {
 public:
  // A line of the file. std::runtime_error for any other text.
  void add(std::string_view line);
  // After the last line.
  Summary since_last();
  Count count_of(const Summary::Group& group) const;

 private:
  struct Number {
    uint64_t known = 0, now = 0;
    uint64_t grown() { return now - std::exchange(known, std::exchange(now, 0)); }
  };
  struct Key {
    uint32_t kernel, user, process;
    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    std::size_t operator()(const Key& key) const;
  };
  uint32_t process_of(Count&& count);

  StackTree stacks_;
  std::vector<Count> processes_;                          // without calls and stacks
  std::unordered_map<std::string, uint32_t> process_of_;  // by all its other attributes
  std::unordered_map<Key, Number, KeyHash> calls_;
  std::unordered_map<std::string, Number> counters_;  // of the head
};
