#include "arguments.h"

#include <getopt.h>

#include <string_view>

#include "tool/command_line.h"

namespace {

constexpr std::string_view kSynopsis =
    "usage: memleak [-h] [-p PID | -c COMMAND] [-t] [-a] [-o OLDER] [--combined-only]\n"
    "               [-s RATE] [-T TOP] [-z MIN_SIZE] [-Z MAX_SIZE] [-O OBJ]\n"
    "               [--symbols-prefix PREFIX] [--sort {size,count}] [-f] [-U]\n"
    "               [--since-mark] [--diff] [--source NAME] [--with-self]\n"
    "               [interval] [count]\n";

constexpr std::string_view kDescription = R"(
Trace outstanding memory allocations that weren't freed: those of a process by
malloc, operator new, mmap and the like, or those of the kernel.

positional arguments:
  interval              interval in seconds to print outstanding allocations (5)
  count                 number of times to print the report before exiting (no
                        limit; with -f once)

options:
  -h, --help            show this help message and exit
  -p PID, --pid PID     the PID to trace; if not specified, trace the kernel's
                        allocations
  -c COMMAND, --command COMMAND
                        execute and trace the specified command
  -t, --trace           with -p or -c: print a message for each allocation and
                        each free, and no reports
  -a, --show-allocs     show allocation addresses and sizes as well as stacks
  -o OLDER, --older OLDER
                        prune allocations younger than this age in milliseconds
                        (500)
  --combined-only       show combined allocation statistics only: of any age,
                        without addresses
  -s RATE, --sample-rate RATE
                        record on average one allocation in RATE bytes (K, M or
                        G may follow) and show estimates of the totals; 1
                        records all (1)
  -T TOP, --top TOP     display only this many top allocating stacks (10)
  -z MIN_SIZE, --min-size MIN_SIZE
                        capture only allocations of at least this size
  -Z MAX_SIZE, --max-size MAX_SIZE
                        capture only allocations of at most this size
  -O OBJ, --obj OBJ     with -p or -c: check that the process runs this program
  --symbols-prefix PREFIX
                        with -p or -c: trace PREFIXmalloc, PREFIXfree, … instead
  --sort {size,count}   report sorted by size or count of allocations (size)
  -f, --folded          one line for each stack, outermost function first, and
                        its bytes (--sort count: its allocations)
  -U, --user-stacks     separate stacks by the program's stack too, and show it
  --since-mark          only allocations since the last "mark"
  --diff                changes from one interval to the next
  --source NAME         only this cache or arena; can be repeated
  --with-self           also allocations of memleak's own process

EXAMPLES:

memleak -p $(pidof allocs)
        Trace a process's allocations and show a summary of those outstanding
        every 5 seconds.
memleak -ap $(pidof allocs) 10
        The same every 10 seconds, with the address and size of each.
memleak -p $(pidof allocs) -t
        Show each single allocation and free.
memleak -c "./allocs"
        Run the command and trace its allocations; when it ends show what it has
        not freed.
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

enum LongOption {
  kCombinedOnly = 256,
  kSort,
  kSinceMark,
  kDiff,
  kSource,
  kWithSelf,
  kWaMissingFree,
  kPerCpu,
  kSymbolsPrefix
};
constexpr option kOptions[] = {
    {"help", no_argument, nullptr, 'h'},
    {"pid", required_argument, nullptr, 'p'},
    {"trace", no_argument, nullptr, 't'},
    {"show-allocs", no_argument, nullptr, 'a'},
    {"older", required_argument, nullptr, 'o'},
    {"command", required_argument, nullptr, 'c'},
    {"obj", required_argument, nullptr, 'O'},
    {"symbols-prefix", required_argument, nullptr, kSymbolsPrefix},
    {"percpu", no_argument, nullptr, kPerCpu},
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
constexpr uint64_t kInterval = 5;           // seconds, if no interval is given
constexpr uint64_t kMaxSample = 4ul << 30;  // bytes: the tracer's limit

void parse_option(int option, Arguments& arguments) {
  const std::string_view value = optarg != nullptr ? optarg : "";
  switch (option) {
    case 'h':
      kLine.help(kDescription);
    case 'p':
      arguments.pid = kLine.number("-p/--pid", value, 1, kMost);
      break;
    case 'c':
      if (value.find_first_not_of(" \t\n") == value.npos)
        kLine.bad("argument -c/--command: there is no command");
      arguments.command = value;
      break;
    case 't':
      arguments.trace = true;
      break;
    case 'i':  // bcc's memleak documents this option, but refuses it
      arguments.interval = kLine.number("-i", value, 1, kMost);
      break;
    case 'O':
      arguments.object = value;
      break;
    case kSymbolsPrefix:
      arguments.prefix = value;
      break;
    case kPerCpu:
      kLine.bad("argument --percpu: this kernel has no allocator of memory for each CPU");
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
      break;  // no effect: here no free is missed
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
        kLine.bad("argument --sort: invalid choice: '" + std::string(value) +
                  "' (choose from 'size', 'count')");
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
        kLine.bad("argument --source: \"" + std::string(value) +
                  "\" is not the name of a cache or arena");
      }
      arguments.sources.emplace_back(value);
      break;
    case kWithSelf:
      arguments.with_self = true;
      break;
    default:  // getopt_long has printed the error
      kLine.misused();
  }
}

// Checks combinations of options.
void check(const Arguments& arguments) {
  if (arguments.min_size > arguments.max_size)
    kLine.bad("min_size (-z) can't be greater than max_size (-Z)");
  if (arguments.combined_only && arguments.show_allocations) {
    kLine.bad("argument -a/--show-allocs: not allowed with argument --combined-only");
  }
  if (arguments.folded && (arguments.show_allocations || arguments.diff)) {
    kLine.bad("argument -f/--folded: not allowed with -a/--show-allocs or --diff");
  }
  if (arguments.diff && arguments.show_allocations) {
    kLine.bad("argument --diff: not allowed with argument -a/--show-allocs");
  }
  if (arguments.pid && arguments.command)
    kLine.bad("argument -c/--command: not allowed with argument -p/--pid");
  if (arguments.of_process()) {
    if (!arguments.sources.empty())
      kLine.bad("argument --source: caches and arenas are the kernel's, not a process's");
    if (arguments.since_mark)
      kLine.bad(
          "argument --since-mark: a process's allocations have no marks; --diff shows growth");
    if (arguments.with_self)
      kLine.bad("argument --with-self: not allowed with -p/--pid or -c/--command");
  } else {
    constexpr const char* kNeedsProcess = ": needs a process, -p/--pid or -c/--command";
    if (arguments.trace) kLine.bad(std::string("argument -t/--trace") + kNeedsProcess);
    if (!arguments.object.empty()) kLine.bad(std::string("argument -O/--obj") + kNeedsProcess);
    if (!arguments.prefix.empty())
      kLine.bad(std::string("argument --symbols-prefix") + kNeedsProcess);
  }
}

}  // namespace

Arguments parse_arguments(int argc, char** argv) {
  Arguments arguments;
  for (int option;
       (option = getopt_long(argc, argv, "hp:tao:c:s:T:z:Z:O:i:fU", kOptions, nullptr)) != -1;) {
    parse_option(option, arguments);
  }
  if (optind < argc) arguments.interval = kLine.number("interval", argv[optind++], 1, kMost);
  if (optind < argc) arguments.count = kLine.number("count", argv[optind++], 1, kMost);
  kLine.no_more(argv, optind);
  check(arguments);
  if (arguments.combined_only) arguments.older_ms = 0;
  const bool once = arguments.folded && !arguments.count;
  if (once) arguments.count = 1;
  // With -c and without an interval, the one report is printed when the command ends.
  if (arguments.interval == 0) arguments.interval = once && arguments.command ? kMost : kInterval;
  return arguments;
}
