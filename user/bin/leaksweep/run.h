// Runs the command. In a run, at most one kernel allocation of one of its processes fails.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

// The allocation that is to fail: allocation number `allocation` of process number `process`. Both
// numbers start at 1. Processes are numbered in the order in which they are forked. Number 1 is
// the shell that runs the command. A new thread counts as a process.
struct Target {
  uint64_t process = 0;  // 0: no allocation fails
  uint64_t allocation = 0;

  bool operator==(const Target&) const = default;
};

// The outcome of a run.
struct Outcome {
  int status = 0;                   // status of the command, as a shell gives it
  uint64_t processes = 0;           // number of processes
  bool hung = false;                // some process had to be killed
  bool failed = false;              // the target failed; if so, the members below are set
  std::string source;               // cache or arena of the failed allocation
  uint64_t size = 0;                // requested bytes
  uint64_t pid = 0;                 // the allocating process
  std::string name;                 // name of the allocating process
  std::vector<std::string> frames;  // return addresses, innermost first, hexadecimal
};

class Command {
 public:
  // The processes of a run are killed when the run has lasted `limit`, or one second after the end
  // of the shell, whichever comes first.
  Command(std::string text, std::chrono::milliseconds limit);
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;
  ~Command();

  // Returns when all processes of the command have ended. If `loud`, the command's output goes to
  // standard error; otherwise it is discarded. Throws std::runtime_error if no process can be
  // created, the kernel rejects the write to #debug/alloc, or a process cannot be killed.
  Outcome run(const Target& target, bool loud = false) const;

 private:
  [[noreturn]] void become(const std::string& request, bool loud) const;
  bool wait(pid_t child, Outcome& outcome) const;
  void check_accepted() const;

  std::string text_;
  std::chrono::milliseconds limit_;
  int control_, nowhere_;  // descriptors of #debug/alloc and #null/null
  int refusal_[2];         // pipe from the child: errno if its write to #debug/alloc fails
};
