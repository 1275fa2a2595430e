// Runs programs, several at once, each in a process of its own.
//
// The process has a session of its own, the program's user, and no descriptors but #null/null on 0
// to 2 and its coverage on 255. One that waits is nudged by SIGUSR1, so that it goes on with its
// next call, then killed.
#pragma once

#include <sys/types.h>

#include <functional>
#include <set>
#include <vector>

#include "program.h"

class Executor {
 public:
  // `workers`: how many programs run at once, at most.
  explicit Executor(unsigned workers);

  // Runs all; `before` is called with each just before it starts, `fresh` with each that has
  // reached places which no program before it had. Returns the PID of a process that cannot be
  // killed, or 0.
  int run(const std::vector<Program>& programs, const std::function<void(const Program&)>& before,
          const std::function<void(const Program&)>& fresh);

  uint64_t calls() const {
    return calls_;
  }  // that have come back, at least: without those of programs that were killed or executed others
  size_t places() const { return places_.size(); }

 private:
  struct Worker {
    int coverage = -1;  // descriptor; -1 if the kernel has none
    off_t covered = 0;  // bytes that were read of it
    int pid = 0;        // 0: idle
    const Program* program = nullptr;
    uint64_t next_nudge = 0;  // milliseconds
    unsigned nudges = 0;
  };

  void start(Worker& worker, const Program& program);
  [[noreturn]] void play(const Worker& worker, const Program& program);
  bool read_places(Worker& worker);
  static bool hurry(Worker& worker, uint64_t now);

  std::vector<Worker> workers_;
  int highest_ = 0;  // descriptor that is open
  std::set<uint64_t> places_;
  uint64_t calls_ = 0;
};

// Milliseconds since boot.
uint64_t milliseconds();
void sleep_milliseconds(unsigned count);
