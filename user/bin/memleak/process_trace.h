// The trace of one process. The functions of the process's allocator are probed, and its mmap and
// munmap are watched (docs/probes.md).
//
// With -p the process runs already. With -c the constructor creates the process; the process waits
// for go() before its exec. The probes are active when the constructor returns. The kernel removes
// them when this object is destroyed or memleak ends, even by SIGKILL.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <memory>
#include <optional>
#include <ostream>
#include <string>

#include "arguments.h"
#include "child.h"
#include "probe/session.h"
#include "process.h"
#include "symbols/program_symbols.h"
#include "tool/dump.h"
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
  // Throws std::runtime_error if the process or its program does not exist, or the program cannot
  // be probed.
  ProcessTrace(const Arguments& arguments, ProgramSymbols& symbols);

  pid_t pid() const { return pid_; }
  const ProcessState& program() const { return program_; }
  // False if the program has no allocator: then only memory from mmap is traced.
  bool has_allocator() const { return has_allocator_; }
  // With -c, makes the child execute the command. Throws std::runtime_error if this fails.
  void go();

  enum class State { kRuns, kEnded, kOtherProgram };
  State state();
  // The state of the process as text for reports: "process 12 has ended with status 1".
  std::string description();

  // The objects that the process has allocated and not freed. Also works after the process has
  // ended.
  Dump dump() const { return Dump::read(session_.file("outstanding")); }
  // With -t: prints each allocation and free until the process ends or a signal comes.
  void print_events(std::ostream& out, const EndSignals& signals);

 private:
  std::unique_ptr<Child> child_;
  pid_t pid_ = -1;
  ProcessState program_;  // the program that the process runs, or executes after go()
  std::string own_build_id_;
  bool has_allocator_ = false;
  ProbeSession session_;
  std::unique_ptr<OpenFile> events_;  // set with -t
};
