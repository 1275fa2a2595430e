// Runs programs, several at once, each in a process of its own.
//
// The process has a session of its own, the program's user, and only two kinds of descriptors:
// #null/null on 0 to 2, and on 255 the coverage file #coverage/places. That file has the places in
// the kernel's code that the process has reached. A process that takes long is nudged at intervals:
// SIGUSR1 interrupts a call in which the process waits, and SIGCONT continues a stopped process. If
// the process has not ended after some nudges, it is killed.
#pragma once

#include <sys/types.h>

#include <functional>
#include <set>
#include <vector>

#include "program.h"

class Executor {
 public:
  // At most `workers` programs run at once.
  explicit Executor(unsigned workers);

  // Runs all programs, at most `at_once` at the same time, and no more than there are workers.
  // Calls `before` just before a program starts, and `fresh` after a program that has reached new
  // places. Returns the PID of a process that cannot be killed, or 0.
  int run(const std::vector<Program>& programs, size_t at_once,
          const std::function<void(const Program&)>& before,
          const std::function<void(const Program&)>& fresh);

  // The number of calls that all programs have made so far, with those of forked processes and of
  // further threads. The calls of a program that execve has started are not counted.
  uint64_t calls() const;
  size_t places() const { return places_.size(); }

 private:
  struct Worker {
    int coverage = -1;  // descriptor of the coverage file; -1 if the kernel has none
    off_t covered = 0;  // bytes of the coverage file read so far
    int pid = 0;        // 0: the worker is idle
    const Program* program = nullptr;
    uint64_t next_nudge = 0;  // time of the next nudge, in milliseconds since boot
    unsigned nudges = 0;
  };

  void start(Worker& worker, const Program& program);
  [[noreturn]] void play(const Worker& worker, const Program& program);
  bool read_places(Worker& worker);
  static bool hurry(Worker& worker, uint64_t now);

  std::vector<Worker> workers_;
  // The fuzzer's highest open descriptor. A program closes the descriptors up to this one, because
  // it inherits them from the fuzzer.
  int highest_ = 0;
  std::set<uint64_t> places_;  // all places reached so far
};

// Milliseconds since boot.
uint64_t milliseconds();
void sleep_milliseconds(unsigned count);
