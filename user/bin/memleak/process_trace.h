// The trace of one process: its allocator's functions are probed, and its mmap and munmap are
// watched (docs/probes.md).
//
// For -p the process runs already. For -c the constructor creates the process, which waits for go()
// before its exec. The probes are on when the constructor returns. They disappear with this object,
// or when memleak ends in any other way.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <memory>
#include <optional>
#include <ostream>
#include <string>

#include "arguments.h"
#include "child.h"
#include "dump.h"
#include "probe/session.h"
#include "process.h"
#include "symbols/program_symbols.h"
#include "tool/end_signals.h"

class OpenFile {
 public:
  explicit OpenFile(const std::string& path);  // Opens for reading; throws std::runtime_error
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  ~OpenFile();
  int number() const { return number_; }

 private:
  int number_;
};

class ProcessTrace {
 public:
  // std::runtime_error if there is no such process or program, or it cannot be probed.
  ProcessTrace(const Arguments& arguments, ProgramSymbols& symbols);

  pid_t pid() const { return pid_; }
  const ProcessState& program() const { return program_; }
  // False if the program has no allocator: then only memory from mmap is traced.
  bool has_allocator() const { return has_allocator_; }
  // Lets the command begin. std::runtime_error if it cannot be run.
  void go();

  enum class State { kRuns, kEnded, kOtherProgram };
  State state();
  // The state of the process, for people: "process 12 has ended with status 1".
  std::string description();

  // The outstanding objects now; after the process has ended, those that it had not freed.
  Dump dump() const { return Dump::read(session_.file("outstanding")); }
  // With -t: prints each allocation and free until the process ends or a signal comes.
  void print_events(std::ostream& out, const EndSignals& signals);

 private:
  std::unique_ptr<Child> child_;
  pid_t pid_ = -1;
  ProcessState program_;  // program that the process runs or will run
  std::string own_build_id_;
  bool has_allocator_ = false;
  ProbeSession session_;
  std::unique_ptr<OpenFile> events_;  // set with -t
};
