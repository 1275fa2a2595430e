// stackcount: counts calls of functions by stack, with the kernel's probes (docs/probes.md). The
// output has the format of bcc's stackcount.
//
// The pattern (pattern.h) is matched against the kernel's list of functions, or against programs'
// symbol tables (functions.h). A session of #probe (probe/session.h) probes the matches and counts
// calls by stack inside the kernel, so stackcount need not handle an event for each call. After
// each interval stackcount reads the counts (counts.h) and prints the calls of the interval
// (report.h). Frames get their names only when they are printed: kernel frames from the kernel's
// symbols, user frames from the program's file. The kernel stores the program's path and build id
// with the counts, so frames of a process that has ended get names, too.
//
// By default, as in bcc's stackcount, both kernel and user stacks are shown, and counts are
// separated by process. With -K only kernel stacks are shown, and -P is necessary to separate
// processes. With -U only user stacks are shown. A function of a program is called outside the
// kernel, so its calls have user stacks only.
//
// The session and its probes end with the stackcount process. A signal, such as SIGINT from Ctrl-C,
// ends the wait for the next summary. stackcount then stops counting and reads the last summary,
// which is complete because no more calls are counted.
#include <chrono>
#include <exception>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

#include "arguments.h"
#include "counts.h"
#include "functions.h"
#include "pattern.h"
#include "probe/session.h"
#include "report.h"
#include "tool/end_signals.h"
#include "tool/files.h"
#include "tool/processes.h"

namespace {

constexpr int kMostFrames = 61;                       // the kernel's maximum for a stack
constexpr std::chrono::seconds kForEver{99'999'999};  // three years, as in bcc's stackcount

std::vector<std::string> commands(const Arguments& arguments, const Pattern& pattern,
                                  const Functions& functions) {
  std::vector<std::string> lines;
  for (const std::string& word : functions.words) lines.push_back("count " + word);
  const bool in_program = !pattern.program.empty();
  const bool kernel = arguments.kernel_stacks && !in_program, user = arguments.user_stacks;
  lines.push_back(std::string("stacks ") + (kernel ? user ? "both" : "kernel"
                                            : user ? "user"
                                                   : "none"));
  lines.push_back("depth " + std::to_string(kMostFrames));
  // User frames can be named only if their process is known.
  if (user || in_program || arguments.per_process || arguments.pid) lines.emplace_back("processes");
  if (arguments.pid) lines.push_back("pid " + std::to_string(*arguments.pid));
  if (arguments.cpu) lines.push_back("cpu " + std::to_string(*arguments.cpu));
  return lines;
}

void flush() {
  if (!std::cout.flush()) throw std::runtime_error("the output cannot be written");
}

int run(const Arguments& arguments) {
  const Pattern pattern = parse_pattern(arguments.pattern);
  ProbeSession session;
  if (arguments.pid && !program_of_process(static_cast<uint32_t>(*arguments.pid))) {
    throw std::runtime_error("there is no process " + std::to_string(*arguments.pid));
  }
  const Functions functions = find_functions(pattern, arguments.regexp, arguments.pid);
  if (functions.count == 0) {
    std::cout << "0 functions matched by \"" << arguments.pattern << "\". Exiting." << std::endl;
    if (functions.unprobeable != 0) {
      std::cerr << "stackcount: " << functions.unprobeable << " that cannot be probed match\n";
    }
    return 0;
  }
  FrameNames names(arguments.offset && !arguments.folded);
  const EndSignals signals;
  const std::vector<std::string> lines = commands(arguments, pattern, functions);
  if (arguments.debug) {
    for (const std::string& line : lines) std::cout << line << '\n';
  }
  session.command(lines);
  session.command("start");
  if (!arguments.folded) {
    std::cout << "Tracing " << functions.count << " functions for \"" << arguments.pattern
              << "\"... Hit Ctrl-C to end.\n";
  }
  flush();

  const std::chrono::seconds interval(
      arguments.interval.value_or(arguments.duration.value_or(kForEver.count())));
  std::chrono::seconds passed{0};
  Counter counter;
  for (bool ends = false; !ends;) {
    ends = signals.wait(interval);
    passed += interval;
    if (arguments.duration && passed >= std::chrono::seconds(*arguments.duration)) ends = true;
    if (ends) session.command("stop");
    read_lines(session.file("counts"), [&](std::string_view line) { counter.add(line); });
    const Summary summary = counter.since_last();
    print_heading(std::cout, arguments);
    for (const Summary::Group& group : summary.groups) {
      print_count(std::cout, arguments, names, counter.count_of(group));
    }
    print_losses(arguments.folded ? std::cerr : std::cout, summary.losses);
    if (ends && !arguments.folded) std::cout << "Detaching...\n";
    flush();
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const Arguments arguments = parse_arguments(argc, argv);
  try {
    return run(arguments);
  } catch (const std::exception& error) {
    std::cerr << "stackcount: " << error.what() << '\n';
    return 1;
  }
}
