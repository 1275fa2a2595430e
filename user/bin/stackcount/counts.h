// The counts of a probe session, from its file `counts` (docs/probes.md).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

// The number of calls with one stack, in one process.
struct Count {
  uint64_t calls;
  std::vector<uint64_t> kernel, user;  // frames, the innermost first
  // The process; set if counts are separated by process.
  uint32_t pid = 0;
  std::string name, path, build_id;
};

// Calls that are missing or incomplete in the counts.
struct Losses {
  uint64_t calls = 0;      // calls that were not counted
  uint64_t kept_out = 0;   // calls by the kernel's tracer itself, which are not counted
  uint64_t stacks = 0;     // calls counted without a stack
  uint64_t processes = 0;  // calls counted without a process
  uint64_t truncated = 0;  // calls counted with their innermost frames only
};

// Parses a line "count CALLS TEXT" of the file: `calls` is CALLS, `what` is TEXT. TEXT is "kernel
// FRAME… user FRAME… pid N name NAME path PATH build DIGITS"; each part may be missing, and
// unknown keys are ignored.
Count parse_count(uint64_t calls, std::string_view what);

// Gives each stack a number. The stacks form trees whose roots are the outermost frames, so stacks
// with the same outer frames share the nodes of these frames. A node has 16 bytes. Sharing saves
// memory, because a kernel function that all processes call has many stacks.
class StackTree {
 public:
  // Returns the number of the stack with these frames, innermost first. Equal stacks have equal
  // numbers. A stack without frames has the number 0.
  uint32_t number(const std::vector<uint64_t>& frames);
  std::vector<uint64_t> frames(uint32_t number) const;

 private:
  struct Node {
    uint64_t frame;
    uint32_t caller;  // number of the caller's node; 0: none
  };
  uint32_t called(uint32_t caller, uint64_t frame);
  static std::size_t hash(uint32_t caller, uint64_t frame);
  void grow();

  std::vector<Node> nodes_{{}};  // nodes by number; number 0 is no node
  std::vector<uint32_t> places_ =
      std::vector<uint32_t>(64);  // open hash table of indices into nodes_; 0: empty
};

// The calls since the previous summary.
struct Summary {
  struct Group {
    uint64_t calls;
    uint32_t kernel, user, process;  // numbers that Counter::count_of() translates
  };
  std::vector<Group> groups;  // fewest calls first
  Losses losses;
};

// Computes summaries. A summary is the difference between two reads of the session's counts, which
// are never cleared: clearing them would lose the calls between the read and the clear.
class Counter {
 public:
  // Takes a line of the file `counts`. std::runtime_error for any other text.
  void add(std::string_view line);
  // Returns the summary of the lines added since the last summary. The last line of the file must
  // have been added.
  Summary since_last();
  Count count_of(const Summary::Group& group) const;

 private:
  struct Number {
    uint64_t known = 0, now = 0;  // value at the last summary, and value in the lines read since
    uint64_t grown() {
      const uint64_t growth = now - known;
      known = std::exchange(now, 0);
      return growth;
    }
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
  std::vector<Count> processes_;  // without calls and stacks
  std::unordered_map<std::string, uint32_t>
      process_of_;  // index in processes_, by the process's attributes
  std::unordered_map<Key, Number, KeyHash> calls_;
  std::unordered_map<std::string, Number> counters_;  // numbers in the `hits` line, by key
};
