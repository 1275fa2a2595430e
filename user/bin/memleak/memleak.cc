// memleak: prints the outstanding allocations of the kernel, or of a process, by stack, in the
// format of bcc's memleak.
//
// For a report on the kernel, the kernel's tracer (docs/tracer.md) records each allocation with its
// stack. memleak starts the traces of all caches and arenas that can be traced (traces.h) and reads
// #mem/tracedump every few seconds. For a report on a process, a probe session (docs/probes.md)
// records the calls of the process's allocation functions (process_trace.h, allocators.h) and gives
// a dump of the same form. In both cases memleak reads the dump (dump.h), filters it by the options
// and adds it up by stack (snapshot.h), and prints the sums (report.h). The kernel, not memleak,
// records the single allocations. So memleak cannot lose any between two reports. The kernel counts
// its own losses; the last line of a report has the counts. Only -t prints single events
// (events.h).
//
// memleak's own system calls make the kernel allocate memory, which would look like leaks. The
// report recognizes these allocations by their PID, leaves them out, and has their count.
//
// memleak must stop and reset the traces that it started before it ends. So the signals of
// EndSignals only end its wait for the next report; SIGPIPE is ignored, so a write to a closed
// output fails. Only SIGKILL leaves traces running. Probes need no such care: the kernel removes
// them when the file of their session is closed.
#include <algorithm>
#include <chrono>
#include <exception>
#include <iostream>
#include <stdexcept>

#include "arguments.h"
#include "process_trace.h"
#include "report.h"
#include "snapshot.h"
#include "tool/dump.h"
#include "tool/end_signals.h"
#include "traces.h"

namespace {

using std::chrono::milliseconds, std::chrono::seconds, std::chrono::steady_clock;

int report_kernel(const Arguments& arguments, std::ostream& notes, const EndSignals& signals) {
  Symbols symbols;
  symbols.kernel();
  Reports reports(arguments, symbols);
  notes << "Attaching to kernel allocators, Ctrl+C to quit." << std::endl;
  const Traces traces(arguments);
  if (arguments.diff) reports.start(take_snapshot(arguments, Dump::read(), traces));
  for (uint64_t done = 0; !arguments.count || done < *arguments.count; done++) {
    if (signals.wait(seconds(arguments.interval))) break;
    reports.print(take_snapshot(arguments, Dump::read(), traces));
  }
  return 0;
}

enum class Waited { kTime, kSignal, kEnd };

// Waits until `time` is over, a signal comes, or the process ends. Throws std::runtime_error if the
// process executes another program.
Waited wait(seconds time, const EndSignals& signals, ProcessTrace& trace) {
  constexpr milliseconds kStep(100);
  const auto end = steady_clock::now() + time;
  for (;;) {
    const ProcessTrace::State state = trace.state();
    if (state == ProcessTrace::State::kOtherProgram) throw std::runtime_error(trace.description());
    if (state == ProcessTrace::State::kEnded) return Waited::kEnd;
    const auto left = std::chrono::ceil<milliseconds>(end - steady_clock::now());
    if (left.count() <= 0) return Waited::kTime;
    if (signals.wait(std::min(left, kStep))) return Waited::kSignal;
  }
}

int report_process(const Arguments& arguments, std::ostream& notes, const EndSignals& signals) {
  Symbols symbols;
  Reports reports(arguments, symbols);
  if (arguments.command) {
    notes << "Executing '" << *arguments.command << "' and tracing the resulting process."
          << std::endl;
  }
  ProcessTrace trace(arguments, symbols.programs);
  if (!trace.has_allocator())
    std::cerr << "memleak: the program has no malloc; what it gets by mmap is followed\n";
  notes << "Attaching to pid " << trace.pid() << ", Ctrl+C to quit." << std::endl;
  trace.go();
  if (arguments.trace) {
    trace.print_events(std::cout, signals);
    return 0;
  }
  for (uint64_t done = 0; !arguments.count || done < *arguments.count; done++) {
    const Waited waited = wait(seconds(arguments.interval), signals, trace);
    if (waited == Waited::kSignal) break;
    // Objects that a process has not freed when it ends are leaks, even the youngest.
    Arguments options = arguments;
    if (waited == Waited::kEnd) options.older_ms = 0;
    reports.print(take_snapshot(options, trace.dump(), trace.program(), trace.description()));
    if (waited == Waited::kEnd) break;
  }
  return 0;
}

int run(const Arguments& arguments) {
  const EndSignals signals;
  // Other programs read folded output, so notes must not be among it.
  std::ostream& notes = arguments.folded ? std::cerr : std::cout;
  return arguments.of_process() ? report_process(arguments, notes, signals)
                                : report_kernel(arguments, notes, signals);
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
