#include "arguments.h"

#include <getopt.h>

#include <string_view>

#include "tool/command_line.h"

namespace {

constexpr std::string_view kSynopsis =
    "usage: kmemtop [-h] [-a] [-A] [-b] [-d SECONDS] [-f TEXT] [-n COUNT]\n"
    "               [-r] [-s KEY]\n";

constexpr std::string_view kDescription = R"(
Show the kernel's caches, arenas and references as they change: live objects,
their growth, and the stacks that allocate in traced ones.

options:
  -h, --help            show this help message and exit
  -a, --all             also show sources that cannot be traced: the memory of
                        the allocator and the tracer, and quantum caches, whose
                        objects are in the line of their arena
  -A, --ascii           draw with ASCII on any terminal
  -b, --batch           print tables, and read no keys
  -d SECONDS, --delay SECONDS
                        refresh every so many seconds (1)
  -f TEXT, --filter TEXT
                        show sources whose names contain TEXT
  -n COUNT, --count COUNT
                        end after so many refreshes (no end)
  -r, --reverse         reverse the order
  -s KEY, --sort KEY    sort by name, live, bytes, rate or change (change)

Keys are explained on the screen: ? shows them all.

EXAMPLES:

kmemtop
        The fastest growing is on top. t starts its trace and shows its stacks.
kmemtop -d 5 -s bytes -f kmalloc
        The caches of kmalloc, the largest first, every five seconds.
kmemtop -b -n 3 -d 0.5
        Three tables, half a second apart.
)";

constexpr CommandLine kLine = {.program = "kmemtop", .usage = kSynopsis};

constexpr option kOptions[] = {
    {"help", no_argument, nullptr, 'h'},        {"all", no_argument, nullptr, 'a'},
    {"ascii", no_argument, nullptr, 'A'},       {"batch", no_argument, nullptr, 'b'},
    {"delay", required_argument, nullptr, 'd'}, {"filter", required_argument, nullptr, 'f'},
    {"count", required_argument, nullptr, 'n'}, {"reverse", no_argument, nullptr, 'r'},
    {"sort", required_argument, nullptr, 's'},  {nullptr, 0, nullptr, 0},
};

constexpr double kShortest = 0.01, kLongest = 86'400;  // seconds
constexpr uint64_t kMostCount = 1'000'000'000;

void parse_option(int option, Arguments& arguments) {
  const std::string_view value = optarg != nullptr ? optarg : "";
  switch (option) {
    case 'h':
      kLine.help(kDescription);
    case 'a':
      arguments.all = true;
      break;
    case 'A':
      arguments.ascii = true;
      break;
    case 'b':
      arguments.batch = true;
      break;
    case 'd':
      arguments.interval = kLine.seconds("-d/--delay", value, kShortest, kLongest);
      break;
    case 'f':
      arguments.filter = value;
      break;
    case 'n':
      arguments.count = kLine.number("-n/--count", value, 1, kMostCount);
      break;
    case 'r':
      arguments.order = SortOrder::kReversed;
      break;
    case 's':
      if (const auto key = sort_key(value))
        arguments.key = *key;
      else
        kLine.bad("argument -s/--sort: \"" + std::string(value) +
                  "\": expected name, live, bytes, rate or change");
      break;
    default:  // getopt_long has printed the error
      kLine.misused();
  }
}

}  // namespace

Arguments parse_arguments(int argc, char** argv) {
  Arguments arguments;
  for (int option; (option = getopt_long(argc, argv, "haAbd:f:n:rs:", kOptions, nullptr)) != -1;)
    parse_option(option, arguments);
  kLine.no_more(argv, optind);
  return arguments;
}
