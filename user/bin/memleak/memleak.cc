// memleak: which stacks of the kernel hold memory that nobody has freed? After bcc's memleak, in its format, from the
// kernel's tracer (docs/tracer.md).
//
// The tracer records each allocation with its stack; memleak starts it for all caches and arenas that can be traced
// (traces.h), takes #mem/tracedump every so many seconds (dump.h), leaves out what options say and adds up what is left
// by stack (snapshot.h), and prints that (report.h). No event passes through memleak, so none is lost between two
// reports; what the tracer could not record it has counted, and the last line of a report says so.
//
// Its own allocations, those of the process memleak, would show as leaks of the system calls by which it reads: they are left
// out by PID, and counted.
//
// However it ends but by SIGKILL, what it started is stopped and reset: signals end the wait for the next report, and
// closed output is seen by the write that fails.
#include <chrono>
#include <exception>
#include <iostream>
#include <stdexcept>

#include "arguments.h"
#include "dump.h"
#include "report.h"
#include "snapshot.h"
#include "tool/end_signals.h"
#include "traces.h"

namespace {

int run(const Arguments& arguments) {
  Symbols symbols;
  const EndSignals signals;
  // Folded output is for programs: nothing else goes there.
  std::ostream& notes = arguments.folded ? std::cerr : std::cout;
  notes << "Attaching to kernel allocators, Ctrl+C to quit." << std::endl;
  const Traces traces(arguments);
  std::map<StackKey, Sum> before;
  if (arguments.diff) before = take_snapshot(arguments, Dump::read(), traces).stacks;
  for (uint64_t done = 0; !arguments.count || done < *arguments.count; done++) {
    if (signals.wait(std::chrono::seconds(arguments.interval))) return 0;
    Snapshot snapshot = take_snapshot(arguments, Dump::read(), traces);
    if (arguments.folded) {
      print_folded(std::cout, arguments, symbols, snapshot);
      print_left_out(std::cerr, snapshot, {});
    } else if (arguments.diff) {
      print_report(std::cout, arguments, symbols, snapshot, difference(snapshot.stacks, before));
      before = std::move(snapshot.stacks);
    } else {
      print_report(std::cout, arguments, symbols, snapshot, snapshot.stacks);
    }
    if (!std::cout.flush()) throw std::runtime_error("the output cannot be written");
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const Arguments arguments = parse_arguments(argc, argv);
  try {
    return run(arguments);
  } catch (const std::exception& error) {
    std::cerr << "memleak: " << error.what() << '\n';
    return 1;
  }
}
