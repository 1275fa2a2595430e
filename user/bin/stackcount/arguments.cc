#include "arguments.h"

#include <string_view>

#include "tool/command_line.h"

namespace {

constexpr std::string_view kSynopsis =
    "usage: stackcount [-h] [-p PID] [-c CPU] [-i INTERVAL] [-D DURATION] [-T] [-r]\n"
    "                  [-s] [-P] [-K] [-U] [-v] [-d] [-f] [--debug]\n"
    "                  pattern\n";

constexpr std::string_view kDescription = R"(
Count calls of functions and their stack traces.

positional arguments:
  pattern               functions: NAME of the kernel, PROGRAM:NAME, or c:NAME
                        for the C library; "*" matches any characters

options:
  -h, --help            show this help message and exit
  -p PID, --pid PID     count in this process only
  -c CPU, --cpu CPU     count on this CPU only
  -i INTERVAL, --interval INTERVAL
                        seconds between summaries
  -D DURATION, --duration DURATION
                        seconds after which to end
  -T, --timestamp       print the time with each summary
  -r, --regexp          the pattern is a regular expression, for the beginning
                        of a name
  -s, --offset          show offsets in functions
  -P, --perpid          count each process separately
  -K, --kernel-stacks-only
                        kernel stacks only
  -U, --user-stacks-only
                        user stacks only
  -v, --verbose         show raw addresses
  -d, --delimited       "--" between kernel and user stacks
  -f, --folded          one line for each stack, outermost function first
  --debug               show the commands given to the kernel

examples:
    stackcount pipe_create           # kernel and user stacks of a kernel function
    stackcount -d pipe_create        # with a line between kernel and user stacks
    stackcount -sv pipe_create       # with offsets and raw addresses
    stackcount 'PipeDevice::*'       # all functions that match
    stackcount -r '^Pipe.*::r'       # the same with a regular expression
    stackcount -Ti 5 pipe_create     # every 5 seconds, with the time
    stackcount -p 18 pipe_create     # in process 18 only
    stackcount -p 18 c:malloc        # calls of malloc in process 18
    stackcount sh:evalpipe           # a function of the shell
    stackcount -K pipe_create        # kernel stacks only
    stackcount -U pipe_create        # user stacks only
)";

constexpr CommandLine kLine = {.program = "stackcount", .usage = kSynopsis};
constexpr uint64_t kMost = 1'000'000'000;

}  // namespace

Arguments parse_arguments(int argc, char** argv) {
  Arguments arguments;
  const auto number = [](auto& to, uint64_t least) {
    return [&to, least](auto name, auto value) { to = kLine.number(name, value, least, kMost); };
  };
  const std::vector<Option> options = {
      {'p', "pid", number(arguments.pid, 1)},
      {'c', "cpu", number(arguments.cpu, 0)},
      {'i', "interval", number(arguments.interval, 1)},
      {'D', "duration", number(arguments.duration, 1)},
      {'T', "timestamp", arguments.timestamp},
      {'r', "regexp", arguments.regexp},
      {'s', "offset", arguments.offset},
      {'P', "perpid", arguments.per_process},
      {'K', "kernel-stacks-only", arguments.user_stacks, false},
      {'U', "user-stacks-only", arguments.kernel_stacks, false},
      {'v', "verbose", arguments.verbose},
      {'d', "delimited", arguments.delimited},
      {'f', "folded", arguments.folded},
      {0, "debug", arguments.debug},
  };
  int at = kLine.options(argc, argv, kDescription, options);
  if (at == argc) kLine.bad("the following arguments are required: pattern");
  arguments.pattern = argv[at++];
  kLine.no_more(argv, at);
  if (!arguments.kernel_stacks && !arguments.user_stacks) {
    kLine.bad("-K and -U are mutually exclusive. If you want both stacks, that is the default.");
  }
  return arguments;
}
