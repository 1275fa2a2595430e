#include "arguments.h"

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

constexpr double kShortest = 0.01, kLongest = 86'400;  // seconds
constexpr uint64_t kMostCount = 1'000'000'000;

}  // namespace

Arguments parse_arguments(int argc, char** argv) {
  Arguments arguments;
  const std::vector<Option> options = {
      {'a', "all", arguments.all},
      {'A', "ascii", arguments.ascii},
      {'b', "batch", arguments.batch},
      {'d', "delay",
       [&](auto name, auto value) {
         arguments.interval = kLine.seconds(name, value, kShortest, kLongest);
       }},
      {'f', "filter", arguments.filter},
      {'n', "count",
       [&](auto name, auto value) { arguments.count = kLine.number(name, value, 1, kMostCount); }},
      {'r', "reverse", [&] { arguments.order = SortOrder::kReversed; }},
      {'s', "sort",
       [&](auto name, auto value) {
         const auto key = sort_key(value);
         if (!key)
           kLine.bad("argument " + std::string(name) + ": \"" + std::string(value) +
                     "\": expected name, live, bytes, rate or change");
         arguments.key = *key;
       }},
  };
  kLine.no_more(argv, kLine.options(argc, argv, kDescription, options));
  return arguments;
}
