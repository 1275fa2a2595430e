#include "arguments.h"

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

constexpr uint64_t kMost = 1'000'000'000;
constexpr uint64_t kInterval = 5;           // seconds, if no interval is given
constexpr uint64_t kMaxSample = 4ul << 30;  // bytes: the tracer's limit

Sort sort_of(std::string_view name, std::string_view value) {
  if (value == "size") return Sort::kSize;
  if (value == "count") return Sort::kCount;
  kLine.bad("argument " + std::string(name) + ": invalid choice: '" + std::string(value) +
            "' (choose from 'size', 'count')");
}

std::string source_of(std::string_view name, std::string_view value) {
  if (value.empty() || value == "ctl" || value.find('/') != value.npos)
    kLine.bad("argument " + std::string(name) + ": \"" + std::string(value) +
              "\" is not the name of a cache or arena");
  return std::string(value);
}

std::string command_of(std::string_view name, std::string_view value) {
  if (value.find_first_not_of(" \t\n") == value.npos)
    kLine.bad("argument " + std::string(name) + ": there is no command");
  return std::string(value);
}

// Performs the options; returns the index of the first operand.
int parse_options(int argc, char** argv, Arguments& arguments) {
  const auto number = [](auto& to, uint64_t least) {
    return [&to, least](auto name, auto value) { to = kLine.number(name, value, least, kMost); };
  };
  const auto bytes = [](auto& to, uint64_t least, uint64_t most) {
    return
        [&to, least, most](auto name, auto value) { to = kLine.bytes(name, value, least, most); };
  };
  const std::vector<Option> options = {
      {'p', "pid", number(arguments.pid, 1)},
      {'c', "command", [&](auto name, auto value) { arguments.command = command_of(name, value); }},
      {'t', "trace", arguments.trace},
      {'a', "show-allocs", arguments.show_allocations},
      {'o', "older", number(arguments.older_ms, 0)},
      {0, "combined-only", arguments.combined_only},
      {'s', "sample-rate", bytes(arguments.sample, 1, kMaxSample)},
      {'T', "top", number(arguments.top, 1)},
      {'z', "min-size", bytes(arguments.min_size, 0, Arguments::kAnySize)},
      {'Z', "max-size", bytes(arguments.max_size, 0, Arguments::kAnySize)},
      {'O', "obj", arguments.object},
      {0, "symbols-prefix", arguments.prefix},
      {0, "sort", [&](auto name, auto value) { arguments.sort = sort_of(name, value); }},
      {'f', "folded", arguments.folded},
      {'U', "user-stacks", arguments.user_stacks},
      {0, "since-mark", arguments.since_mark},
      {0, "diff", arguments.diff},
      {0, "source",
       [&](auto name, auto value) { arguments.sources.push_back(source_of(name, value)); }},
      {0, "with-self", arguments.with_self},
      // Of bcc's memleak. It documents the first option, but refuses it.
      {'i', nullptr, number(arguments.interval, 1)},
      {0, "wa-missing-free", [] {}},  // no effect: here no free is missed
      {0, "percpu",
       [] { kLine.bad("argument --percpu: this kernel has no allocator of memory for each CPU"); }},
  };
  return kLine.options(argc, argv, kDescription, options);
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
  int at = parse_options(argc, argv, arguments);
  if (arguments.sample == 1) arguments.sample = 0;
  if (at < argc) arguments.interval = kLine.number("interval", argv[at++], 1, kMost);
  if (at < argc) arguments.count = kLine.number("count", argv[at++], 1, kMost);
  kLine.no_more(argv, at);
  check(arguments);
  if (arguments.combined_only) arguments.older_ms = 0;
  const bool once = arguments.folded && !arguments.count;
  if (once) arguments.count = 1;
  // With -c and without an interval, the one report is printed when the command ends.
  if (arguments.interval == 0) arguments.interval = once && arguments.command ? kMost : kInterval;
  return arguments;
}
