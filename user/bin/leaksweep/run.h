// Runs of the command in which one allocation of one of its processes fails, or none.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

// Number `allocation` of process `process`, both from 1 on. Processes are numbered in the order in
// which they are forked; number 1 is the shell that runs the command.
struct Target {
  uint64_t process = 0;  // 0: none fails
  uint64_t allocation = 0;

  bool operator==(const Target&) const = default;
};

// The outcome of a run.
struct Outcome {
  int status = 0;                   // of the command, as a shell gives it
  uint64_t processes = 0;           // number of processes
  bool hung = false;                // some process had to be killed
  bool failed = false;              // the allocation happened, and failed; then:
  std::string source;               // the requested cache or arena
  uint64_t size = 0;                // requested bytes
  uint64_t pid = 0;                 // the allocating process
  std::string name;                 // its process's name
  std::vector<std::string> frames;  // return addresses, innermost first, hexadecimal
};

class Command {
 public:
  // A run that takes longer than `limit` is killed.
  Command(std::string text, std::chrono::milliseconds limit);
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;
  ~Command();

  // Returns when all processes of the command have ended. The command's output is discarded unless
  // `loud`: then it goes to standard error. std::runtime_error if there is no process for it, the
  // kernel refuses the order, or a process cannot be killed.
  Outcome run(const Target& target, bool loud = false) const;

 private:
  [[noreturn]] void become(const std::string& order, bool loud) const;
  bool wait(pid_t child, Outcome& outcome) const;
  void check_order() const;

  std::string text_;
  std::chrono::milliseconds limit_;
  int control_, nowhere_;
  int refusal_[2];  // the error number of an order that the kernel refused
};
