// kmemwatch: watches the kernel's caches and arenas for growth, unattended.
//
// Every half second (-i) kmemwatch takes a sample of #mem/kmemstat and judges the live objects
// (judge.h). kmemwatch prints a table when growth begins, when growth ends, and when kmemwatch
// itself ends (report.h). With -t it starts the kernel's trace of each cache or arena that grows
// (traces.h), so that objects that leak later have stacks.
//
// kmemwatch leaves out the sources that cannot be traced: quantum caches, and the memory of the
// allocator and the tracer themselves. Their counts only follow the counts of other sources. For
// example, the count of an arena includes the objects of its quantum caches.
//
// kmemwatch allocates all its memory soon after the start: about a megabyte, which has room for the
// minima of a month (windows.h). If a sample fails, for example for lack of memory, kmemwatch
// counts the failure and continues with the next sample.
#include <chrono>
#include <exception>
#include <iostream>
#include <map>
#include <set>
#include <stdexcept>
#include <vector>

#include "arguments.h"
#include "judge.h"
#include "report.h"
#include "tool/end_signals.h"
#include "tool/kmemstat.h"
#include "traces.h"

namespace {

using std::chrono::duration, std::chrono::milliseconds, std::chrono::steady_clock;

enum Status { kNothingGrows = 0, kSomethingGrows = 1, kFailed = 2 };

class Watch {
 public:
  explicit Watch(const WatchArguments& arguments)
      : arguments_(arguments),
        traces_(arguments),
        judge_(duration<double>(arguments.window()).count(), arguments.alpha) {}

  int run() {
    sample();
    print_heading(std::cout, arguments_, traces_of_.size());
    for (auto next = start_ + arguments_.interval; !wait_until(next);) {
      take_sample();
      // Skips samples whose time has passed.
      while (next <= steady_clock::now()) next += arguments_.interval;
    }
    report();
    if (judge_.looks() == 0) return kFailed;
    return judge_.growing().empty() ? kNothingGrows : kSomethingGrows;
  }

 private:
  // Waits until `next`. True if kmemwatch is to end: a signal has come, or -T's time is over.
  bool wait_until(steady_clock::time_point next) const {
    const auto end = arguments_.time ? start_ + *arguments_.time : steady_clock::time_point::max();
    const auto left = std::chrono::ceil<milliseconds>(std::min(next, end) - steady_clock::now());
    return signals_.wait(std::max(left, milliseconds(0))) || steady_clock::now() >= end;
  }

  void take_sample() {
    bool looked = false;
    try {
      looked = sample();
    } catch (const std::exception&) {
      missed_++;
    }
    if (!looked) return;
    const std::set<std::string> growing = judge_.growing();
    traces_.start(growing, traces_of_);
    if (arguments_.verbose || growing != known_) report();
    known_ = growing;
  }

  // Takes a sample. True if the sample completed a test for growth (a "look", judge.h).
  bool sample() {
    const std::vector<KmemstatLine> lines = read_kmemstat();
    seconds_ = duration<double>(steady_clock::now() - start_).count();
    traces_of_.clear();
    std::vector<Live> live;
    for (const KmemstatLine& line : lines) {
      if (line.trace == "never") continue;
      traces_of_[line.name] = line.trace;
      live.push_back({.name = line.name,
                      .objects = static_cast<int64_t>(line.live),
                      .bytes = static_cast<int64_t>(line.allocated_bytes)});
    }
    return judge_.add(seconds_, live);
  }

  void report() const {
    print_report(std::cout, arguments_,
                 {.seconds = seconds_,
                  .growths = judge_.ranked(),
                  .traces = traces_of_,
                  .missed = missed_,
                  .judged = judge_.looks() > 0});
  }

  const WatchArguments& arguments_;
  const EndSignals signals_;
  Traces traces_;
  Judge judge_;
  const steady_clock::time_point start_ = steady_clock::now();
  double seconds_ = 0;                            // time from the start to the last sample
  uint64_t missed_ = 0;                           // samples that failed
  std::map<std::string, std::string> traces_of_;  // by source: "off", "running" or "stopped"
  std::set<std::string> known_;                   // sources that grew at the last judgement
};

}  // namespace

int main(int argc, char** argv) {
  const WatchArguments arguments = parse_arguments(argc, argv);
  try {
    return Watch(arguments).run();
  } catch (const std::exception& error) {
    std::cerr << "kmemwatch: " << error.what() << '\n';
    return kFailed;
  }
}
