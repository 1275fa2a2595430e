#include "arguments.h"

#include <string_view>

#include "tool/command_line.h"

namespace {

constexpr std::string_view kSynopsis =
    "usage: kmemwatch [-h] [-i SECONDS] [-w SAMPLES] [-T SECONDS] [-a ALPHA] [-t]\n"
    "                 [-o KEY=NUMBER] [-v]\n";

constexpr std::string_view kDescription = R"(
Watch the kernel's caches and arenas for growth, and report its certainty. A
cache that fills up and then stays, or varies with the load, does not grow.

options:
  -h, --help            show this help message and exit
  -i SECONDS, --interval SECONDS
                        seconds between samples of live objects (0.5)
  -w SAMPLES, --window SAMPLES
                        samples in a window, of which the minimum counts (40);
                        the first judgement takes 24 windows
  -T SECONDS, --time SECONDS
                        end after so many seconds (no end)
  -a ALPHA, --alpha ALPHA
                        chance that a whole run accuses any cache wrongly,
                        from 1e-9 to 0.5 (0.01)
  -t, --trace           start the traces of growing caches and arenas, and leave
                        them running
  -o KEY=NUMBER, --trace-option KEY=NUMBER
                        with -t: an option of the trace: depth, sample, min,
                        max or pid; can be repeated
  -v, --verbose         report at each judgement, also on caches that do not grow

The exit status is 0 if nothing grows at the end, 1 if something grows, 2 if it
is unknown.

EXAMPLES:

kmemwatch
        Report when growth begins and when it ends, until ^C.
kmemwatch -t -o sample=512K
        The same, and record allocations in what grows, with little overhead.
kmemwatch -i 0.02 -w 10 -T 20 -v
        A quick look: windows of 0.2 s, twenty seconds.
)";

constexpr CommandLine kLine = {.program = "kmemwatch", .usage = kSynopsis};

constexpr double kShortest = 0.001, kLongestInterval = 86'400, kLongestTime = 1e9;  // seconds
constexpr double kLeastAlpha = 1e-9, kMostAlpha = 0.5;
constexpr uint64_t kMostSamples = 100'000, kMost = 1'000'000'000, kMostDepth = 64;
constexpr uint64_t kMostSample = 4ul << 30, kMostBytes = 1ul << 48;

// Checks the option as the kernel would, so that an error is found at the start of kmemwatch, not
// when something begins to grow.
std::string trace_option(std::string_view text) {
  const std::string_view key = text.substr(0, text.find('='));
  const std::string_view value = text.substr(std::min(key.size() + 1, text.size()));
  const std::string name = "-o/--trace-option " + std::string(key);
  if (key == "depth")
    kLine.number(name, value, 1, kMostDepth);
  else if (key == "sample")
    kLine.bytes(name, value, 1, kMostSample);
  else if (key == "min" || key == "max")
    kLine.bytes(name, value, 0, kMostBytes);
  else if (key == "pid")
    kLine.number(name, value, 1, kMost);
  else
    kLine.bad("argument -o/--trace-option: \"" + std::string(text) +
              "\": expected depth, sample, min, max or pid, then = and a number");
  return " " + std::string(text);
}

}  // namespace

WatchArguments parse_arguments(int argc, char** argv) {
  WatchArguments arguments;
  const std::vector<Option> options = {
      {'i', "interval",
       [&](auto name, auto value) {
         arguments.interval = kLine.seconds(name, value, kShortest, kLongestInterval);
       }},
      {'w', "window",
       [&](auto name, auto value) {
         arguments.samples_in_window = kLine.number(name, value, 1, kMostSamples);
       }},
      {'T', "time",
       [&](auto name, auto value) {
         arguments.time = kLine.seconds(name, value, kShortest, kLongestTime);
       }},
      {'a', "alpha",
       [&](auto name, auto value) {
         arguments.alpha = kLine.real(name, value, kLeastAlpha, kMostAlpha);
       }},
      {'t', "trace", arguments.trace},
      {'o', "trace-option",
       [&](auto, auto value) { arguments.trace_options += trace_option(value); }},
      {'v', "verbose", arguments.verbose},
  };
  kLine.no_more(argv, kLine.options(argc, argv, kDescription, options));
  if (!arguments.trace && !arguments.trace_options.empty())
    kLine.bad("argument -o/--trace-option: needs -t/--trace");
  return arguments;
}
