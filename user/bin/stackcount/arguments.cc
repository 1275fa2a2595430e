#include "arguments.h"

#include <getopt.h>

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

constexpr int kDebug = 256;
constexpr option kOptions[] = {
    {"help", no_argument, nullptr, 'h'},
    {"pid", required_argument, nullptr, 'p'},
    {"cpu", required_argument, nullptr, 'c'},
    {"interval", required_argument, nullptr, 'i'},
    {"duration", required_argument, nullptr, 'D'},
    {"timestamp", no_argument, nullptr, 'T'},
    {"regexp", no_argument, nullptr, 'r'},
    {"offset", no_argument, nullptr, 's'},
    {"perpid", no_argument, nullptr, 'P'},
    {"kernel-stacks-only", no_argument, nullptr, 'K'},
    {"user-stacks-only", no_argument, nullptr, 'U'},
    {"verbose", no_argument, nullptr, 'v'},
    {"delimited", no_argument, nullptr, 'd'},
    {"folded", no_argument, nullptr, 'f'},
    {"debug", no_argument, nullptr, kDebug},
    {nullptr, 0, nullptr, 0},
};

void parse_option(int option, Arguments& arguments) {
  const std::string_view value = optarg != nullptr ? optarg : "";
  switch (option) {
    case 'h':
      kLine.help(kDescription);
    case 'p':
      arguments.pid = kLine.number("-p/--pid", value, 1, kMost);
      break;
    case 'c':
      arguments.cpu = kLine.number("-c/--cpu", value, 0, kMost);
      break;
    case 'i':
      arguments.interval = kLine.number("-i/--interval", value, 1, kMost);
      break;
    case 'D':
      arguments.duration = kLine.number("-D/--duration", value, 1, kMost);
      break;
    case 'T':
      arguments.timestamp = true;
      break;
    case 'r':
      arguments.regexp = true;
      break;
    case 's':
      arguments.offset = true;
      break;
    case 'P':
      arguments.per_process = true;
      break;
    case 'K':
      arguments.user_stacks = false;
      break;
    case 'U':
      arguments.kernel_stacks = false;
      break;
    case 'v':
      arguments.verbose = true;
      break;
    case 'd':
      arguments.delimited = true;
      break;
    case 'f':
      arguments.folded = true;
      break;
    case kDebug:
      arguments.debug = true;
      break;
    default:  // getopt_long has printed the error
      kLine.misused();
  }
}

}  // namespace

Arguments parse_arguments(int argc, char** argv) {
  Arguments arguments;
  for (int option;
       (option = getopt_long(argc, argv, "hp:c:i:D:TrsPKUvdf", kOptions, nullptr)) != -1;) {
    parse_option(option, arguments);
  }
  if (optind == argc) kLine.bad("the following arguments are required: pattern");
  arguments.pattern = argv[optind++];
  kLine.no_more(argv, optind);
  if (!arguments.kernel_stacks && !arguments.user_stacks) {
    kLine.bad("-K and -U are mutually exclusive. If you want both stacks, that is the default.");
  }
  return arguments;
}
