// kmemwatch: which caches and arenas of the kernel grow, although nobody looks?
//
// It takes a sample of #mem/kmemstat every half second and judges what is live (judge.h). When
// something begins to grow, or ends, it prints a table (report.h); with -t it has the kernel's
// tracer record who allocates what grows (traces.h), so that what leaks from then on has a name
// when somebody comes to look.
//
// Left out is what cannot be traced: the memory of the allocator and the tracer themselves, and
// quantum caches, whose objects stand in the line of their arena. It follows what the others have.
//
// Its own memory is all there soon after the start: a megabyte for a month's windows of each cache.
// A sample that cannot be taken, because memory is short, is counted; it goes on with the next one.
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
  explicit Watch(const Arguments& arguments)
      : arguments_(arguments),
        traces_(arguments),
        judge_(duration<double>(arguments.window()).count(), arguments.alpha) {}

  int run() {
    sample();
    print_heading(std::cout, arguments_, traces_of_.size());
    for (auto next = start_ + arguments_.interval; !wait_until(next);) {
      take_sample();
      // What is late is left out, not made up for.
      while (next <= steady_clock::now()) next += arguments_.interval;
    }
    report();
    if (judge_.looks() == 0) return kFailed;
    return judge_.growing().empty() ? kNothingGrows : kSomethingGrows;
  }

 private:
  // True if that is all: a signal has come, or the time is over.
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

  // True if it was the last of those that a judgement takes.
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

  const Arguments& arguments_;
  const EndSignals signals_;
  Traces traces_;
  Judge judge_;
  const steady_clock::time_point start_ = steady_clock::now();
  double seconds_ = 0;                            // from the start to the last sample
  uint64_t missed_ = 0;                           // samples
  std::map<std::string, std::string> traces_of_;  // "off", "running", "stopped", by name
  std::set<std::string> known_;                   // what grew at the last judgement
};

}  // namespace

int main(int argc, char** argv) {
  const Arguments arguments = parse_arguments(argc, argv);
  try {
    return Watch(arguments).run();
  } catch (const std::exception& error) {
    std::cerr << "kmemwatch: " << error.what() << '\n';
    return kFailed;
  }
}
