// leaksweep [--share I/J] [--from K.N] [--limit SECONDS] COMMAND: runs COMMAND once for each
// allocation that its processes make in the kernel. In each run a different allocation fails.
// leaksweep reports the failures after which objects are left. It is the guest's half of
// `make leaksweep` (docs/testing.md); the host's half turns the output into tables with names.
//
// leaksweep writes the following lines to standard output. K is the number of a process of the
// command. N is the number of an allocation that this process makes in the kernel. Both numbers
// start at 1.
//
//   leaksweep clean STATUS PROCESSES PID  the runs without failures are done. STATUS is the exit
//                                      status of the command. PROCESSES is the number of its
//                                      processes. PID is leaksweep's PID
//   leaksweep grows NAME OBJECTS BYTES this count keeps rising in the runs without failures; the
//                                      sweep ends here
//   leaksweep try K N                  allocation N of process K is going to fail
//   leaksweep passed K N               process K makes fewer than N allocations
//   leaksweep cut K N                  processes were killed before allocation N came; process K
//                                      may make N allocations or more
//   leaksweep hung K N                 allocation N failed, and then processes were killed
//   leaksweep stuck K N                allocation N failed; processes of the next run, which had no
//                                      failure, were killed
//   leaksweep leak K N                 counts rise each time that allocation N fails. `rise`,
//                                      `failed` and `frame` lines follow. A `dump` follows the
//                                      first leak with this stack and these counts
//   leaksweep once K N                 counts rose, but not each time that allocation N failed
//                                      again; `rise` lines follow
//   leaksweep unrepeated K N           counts rose, but allocation N could not be made to fail
//                                      again; `rise` lines follow
//   leaksweep rise NAME OBJECTS BYTES  a count that rose, and by how much
//   leaksweep failed SOURCE SIZE PID PROCESS  the allocation that failed: its cache or arena, its
//                                      size in bytes, and the PID and name of its process
//   leaksweep frame ADDRESS            a return address in the stack of the allocation that failed
//   leaksweep dump SIZE                SIZE bytes follow: a #mem/tracedump of the leaked objects
//   leaksweep end
//
// If the sweep could not be made, the exit status is 2 and the reason is on standard error.
// Otherwise the exit status is 0.
#include <malloc.h>

#include <cstdlib>
#include <exception>
#include <iostream>
#include <string_view>

#include "sweep.h"
#include "tool/command_line.h"
#include "tool/touch_pages.h"

namespace {

constexpr CommandLine kLine = {
    .program = "leaksweep",
    .usage = "usage: leaksweep [-h] [--share I/J] [--from K.N] [--limit SECONDS] COMMAND\n"};

constexpr std::string_view kDescription = R"(
Run a command for the shell once for each allocation that its processes make in
the kernel; each time another one fails. Says after which of them something is
left behind. Root only.

options:
  -h, --help       show this help message and exit
  --share I/J      every J-th allocation, from number I on (1/1)
  --from K.N       begin with allocation N of process K
  --limit SECONDS  what runs longer is killed (10)
)";

constexpr uint64_t kMost = 100'000'000;
constexpr uint64_t kMostSeconds = 3600;

struct Arguments {
  Stride share;
  Target from = {.process = 1};
  uint64_t limit = 10;  // seconds until a run is killed
  std::string command;
};

// Parses two numbers, each at least 1, with `between` in the middle.
void parse_pair(std::string_view name, std::string_view text, char between, uint64_t& first,
                uint64_t& second) {
  const std::size_t middle = text.find(between);
  if (middle == text.npos)
    kLine.bad("argument " + std::string(name) + ": two numbers with \"" + between +
              "\" between are wanted");
  first = kLine.number(name, text.substr(0, middle), 1, kMost);
  second = kLine.number(name, text.substr(middle + 1), 1, kMost);
}

Arguments parse_arguments(int argc, char** argv) {
  Arguments arguments;
  const std::vector<Option> options = {
      {0, "share",
       [&](auto name, auto value) {
         parse_pair(name, value, '/', arguments.share.first, arguments.share.step);
       }},
      {0, "from",
       [&](auto name, auto value) {
         parse_pair(name, value, '.', arguments.from.process, arguments.from.allocation);
       }},
      {0, "limit",
       [&](auto name, auto value) {
         arguments.limit = kLine.number(name, value, 1, kMostSeconds);
       }},
  };
  const int at =
      kLine.options(argc, argv, kDescription, options, CommandLine::Order::kOptionsFirst);
  if (at + 1 != argc) kLine.bad("give one command");
  arguments.command = argv[at];
  if (arguments.command.find_first_not_of(" \t\n") == arguments.command.npos)
    kLine.bad("the command is empty");
  return arguments;
}

// Allocates all pages of this program now and keeps its heap from shrinking, because pages that the
// program gets or returns later would change the counts.
void take_all_pages() {
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  touch_all_pages();
}

}  // namespace

int main(int argc, char** argv) {
  const Arguments arguments = parse_arguments(argc, argv);
  try {
    take_all_pages();
    const Command command(arguments.command, std::chrono::seconds(arguments.limit));
    Sweep sweep(command);
    if (sweep.warm_up()) sweep.run(arguments.share, arguments.from);
    std::cout << "leaksweep end" << std::endl;
  } catch (const std::exception& error) {
    std::cout.flush();
    std::cerr << "leaksweep: " << error.what() << '\n';
    return 2;
  }
  return std::cout ? 0 : 2;
}
