#include "arguments.h"

#include <getopt.h>

#include <cstdlib>
#include <iostream>
#include <string_view>

#include "tool/command_line.h"

namespace {

constexpr std::string_view kSynopsis =
    "usage: memleak [-h] [-a] [-o OLDER] [--combined-only] [-s RATE] [-T TOP]\n"
    "               [-z MIN_SIZE] [-Z MAX_SIZE] [--sort {size,count}] [-f] [-U]\n"
    "               [--since-mark] [--diff] [--source NAME] [--with-self]\n"
    "               [interval] [count]\n";

constexpr std::string_view kDescription = R"(
Trace outstanding memory allocations of the kernel that weren't freed.

positional arguments:
  interval              interval in seconds to print outstanding allocations (5)
  count                 number of times to print the report before exiting (no
                        limit; with -f once)

options:
  -h, --help            show this help message and exit
  -a, --show-allocs     show allocation addresses and sizes as well as stacks
  -o OLDER, --older OLDER
                        prune allocations younger than this age in milliseconds
                        (500)
  --combined-only       show combined allocation statistics only: of any age,
                        without addresses
  -s RATE, --sample-rate RATE
                        record one allocation in RATE bytes on the average (K,
                        M or G may follow) and show what these stand for; 1
                        records all (1)
  -T TOP, --top TOP     display only this many top allocating stacks (10)
  -z MIN_SIZE, --min-size MIN_SIZE
                        capture only allocations of at least this size
  -Z MAX_SIZE, --max-size MAX_SIZE
                        capture only allocations of at most this size
  --sort {size,count}   report sorted by size or count of allocations (size)
  -f, --folded          one line for each stack, outermost function first, and
                        its bytes (--sort count: its allocations)
  -U, --user-stacks     tell stacks apart by the program's stack too, and show it
  --since-mark          only what was allocated since the last "mark"
  --diff                what has changed from one interval to the next
  --source NAME         only this cache or arena; may be given more than once
  --with-self           also what memleak's own process allocated

EXAMPLES:

memleak
        Trace the kernel's allocations and show a summary of those outstanding
        every 5 seconds.
memleak -a 10
        The same every 10 seconds, with the address and size of each.
memleak -z 1000 -Z 4096 --sort count 5 3
        Those of 1000 to 4096 bytes, three times, most allocations last.
memleak -s 512K -T 20
        With little overhead: one allocation in 512 KiB.
)";

constexpr CommandLine kLine = {.program = "memleak", .usage = kSynopsis};

// For options of the original that need to see a process's calls.
[[noreturn]] void needs_probes(std::string_view option, std::string_view instead) {
  kLine.bad("argument " + std::string(option) + " needs probes, which this system does not have; " +
            std::string(instead));
}

enum LongOption { kCombinedOnly = 256, kSort, kSinceMark, kDiff, kSource, kWithSelf, kWaMissingFree };
constexpr option kOptions[] = {
    {"help", no_argument, nullptr, 'h'},
    {"pid", required_argument, nullptr, 'p'},
    {"trace", no_argument, nullptr, 't'},
    {"show-allocs", no_argument, nullptr, 'a'},
    {"older", required_argument, nullptr, 'o'},
    {"command", required_argument, nullptr, 'c'},
    {"combined-only", no_argument, nullptr, kCombinedOnly},
    {"wa-missing-free", no_argument, nullptr, kWaMissingFree},
    {"sample-rate", required_argument, nullptr, 's'},
    {"top", required_argument, nullptr, 'T'},
    {"min-size", required_argument, nullptr, 'z'},
    {"max-size", required_argument, nullptr, 'Z'},
    {"sort", required_argument, nullptr, kSort},
    {"folded", no_argument, nullptr, 'f'},
    {"user-stacks", no_argument, nullptr, 'U'},
    {"since-mark", no_argument, nullptr, kSinceMark},
    {"diff", no_argument, nullptr, kDiff},
    {"source", required_argument, nullptr, kSource},
    {"with-self", no_argument, nullptr, kWithSelf},
    {nullptr, 0, nullptr, 0},
};

constexpr uint64_t kMost = 1'000'000'000;
constexpr uint64_t kMaxSample = 4ul << 30;  // the tracer's

void parse_option(int option, Arguments& arguments) {
  const std::string_view value = optarg != nullptr ? optarg : "";
  switch (option) {
    case 'h':
      std::cout << kSynopsis << kDescription;
      std::exit(0);
    case 'p':
    case 'c':
      needs_probes(option == 'p' ? "-p/--pid" : "-c/--command",
                   "without it memleak shows the kernel's allocations, with -U those of each program's system calls");
    case 't':
      needs_probes("-t/--trace", "-a shows each allocation that is outstanding");
    case 'a':
      arguments.show_allocations = true;
      break;
    case 'o':
      arguments.older_ms = kLine.number("-o/--older", value, 0, kMost);
      break;
    case kCombinedOnly:
      arguments.combined_only = true;
      break;
    case kWaMissingFree:
      break;  // no free is missed here
    case 's':
      arguments.sample = kLine.bytes("-s/--sample-rate", value, 1, kMaxSample);
      if (arguments.sample == 1) arguments.sample = 0;
      break;
    case 'T':
      arguments.top = kLine.number("-T/--top", value, 1, kMost);
      break;
    case 'z':
      arguments.min_size = kLine.bytes("-z/--min-size", value, 0, Arguments::kAnySize);
      break;
    case 'Z':
      arguments.max_size = kLine.bytes("-Z/--max-size", value, 0, Arguments::kAnySize);
      break;
    case kSort:
      if (value != "size" && value != "count") {
        kLine.bad("argument --sort: invalid choice: '" + std::string(value) + "' (choose from 'size', 'count')");
      }
      arguments.sort = value == "size" ? Sort::kSize : Sort::kCount;
      break;
    case 'f':
      arguments.folded = true;
      break;
    case 'U':
      arguments.user_stacks = true;
      break;
    case kSinceMark:
      arguments.since_mark = true;
      break;
    case kDiff:
      arguments.diff = true;
      break;
    case kSource:
      if (value.empty() || value == "ctl" || value.find('/') != value.npos) {
        kLine.bad("argument --source: \"" + std::string(value) + "\" is not the name of a cache or arena");
      }
      arguments.sources.emplace_back(value);
      break;
    case kWithSelf:
      arguments.with_self = true;
      break;
    default:  // getopt_long has said what is wrong
      std::cerr << kSynopsis;
      std::exit(2);
  }
}

}  // namespace

Arguments parse_arguments(int argc, char** argv) {
  Arguments arguments;
  for (int option; (option = getopt_long(argc, argv, "hp:tao:c:s:T:z:Z:fU", kOptions, nullptr)) != -1;) {
    parse_option(option, arguments);
  }
  if (optind < argc) arguments.interval = kLine.number("interval", argv[optind++], 1, kMost);
  if (optind < argc) arguments.count = kLine.number("count", argv[optind++], 1, kMost);
  if (optind < argc) kLine.bad("unrecognized arguments: " + std::string(argv[optind]));
  if (arguments.min_size > arguments.max_size) kLine.bad("min_size (-z) can't be greater than max_size (-Z)");
  if (arguments.combined_only && arguments.show_allocations) {
    kLine.bad("argument -a/--show-allocs: not allowed with argument --combined-only");
  }
  if (arguments.folded && (arguments.show_allocations || arguments.diff)) {
    kLine.bad("argument -f/--folded: not allowed with -a/--show-allocs or --diff");
  }
  if (arguments.diff && arguments.show_allocations) {
    kLine.bad("argument --diff: not allowed with argument -a/--show-allocs");
  }
  if (arguments.combined_only) arguments.older_ms = 0;
  if (arguments.folded && !arguments.count) arguments.count = 1;
  return arguments;
}
