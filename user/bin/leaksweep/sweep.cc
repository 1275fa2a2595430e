#include "sweep.h"

#include <unistd.h>

#include <cstring>
#include <iostream>
#include <stdexcept>

#include "tool/files.h"

namespace {

constexpr unsigned kMostClean = 12;  // the most runs without failures in warm_up()
constexpr unsigned kQuiet = 2;       // warm_up() ends after so many runs in a row without a rise
constexpr unsigned kRepeats = 3;     // repetitions of a failure that left something
constexpr unsigned kAttempts = 3;    // attempts for each repetition
// Tracing can change the number of an allocation by at most this, up or down.
constexpr uint64_t kNeighbours = 8;

std::ostream& say(const char* word) {
  return std::cout << "leaksweep " << word;
}

void say_target(const char* word, const Target& target) {
  say(word) << ' ' << target.process << ' ' << target.allocation << std::endl;
}

void say_rises(const char* word, const Counts& risen) {
  for (const auto& [name, count] : risen)
    say(word) << ' ' << name << ' ' << count.objects << ' ' << count.bytes << '\n';
}

std::string trace_of(const std::string& name) {
  return "#mem/kmemtrace/" + name;
}

// The constructor starts the traces of caches and arenas. The destructor stops and resets them.
class Traces {
 public:
  explicit Traces(const Counts& sources) {
    for (const auto& source : sources)
      if (write_command(trace_of(source.first), "start\n") == 0) names_.push_back(source.first);
  }
  Traces(const Traces&) = delete;
  Traces& operator=(const Traces&) = delete;
  ~Traces() { command("stop\nreset\n"); }
  bool any() const { return !names_.empty(); }
  // Stops the traces and reads their records. They are stopped first, because otherwise they would
  // record the allocations that the read makes.
  std::string dump() const {
    command("stop\n");
    return read_file("#mem/tracedump");
  }

 private:
  void command(std::string_view text) const {
    for (const std::string& name : names_) write_command(trace_of(name), text);
  }

  std::vector<std::string> names_;
};

// Identifies a leak by the failed allocation's stack and the names of the counts that rose. Of
// several leaks with the same key, only the first is traced.
std::string key_of(const Outcome& outcome, const Counts& risen) {
  std::string key;
  for (const std::string& frame : outcome.frames) key += frame + ' ';
  for (const auto& source : risen) key += source.first + ' ';
  return key;
}

}  // namespace

bool Sweep::warm_up() {
  Outcome outcome = command_.run({}, true);
  // The first run with a failure makes leaksweep itself allocate memory, which it keeps. So this
  // run comes before the first counts.
  command_.run({.process = 1, .allocation = 1});
  base_ = counts_at_rest();
  Counts growing = base_;
  for (unsigned runs = 0, quiet = 0; quiet < kQuiet; runs++) {
    if (outcome.hung) throw std::runtime_error("the command does not end by itself");
    if (runs == kMostClean) {
      say_rises("grows", growing);
      return false;
    }
    outcome = command_.run({});
    const Counts now = counts_at_rest();
    const Counts risen = rises(base_, now);
    quiet = risen.empty() ? quiet + 1 : 0;
    growing = risen.empty() ? growing : both(risen, growing);
    base_ = now;
  }
  processes_ = outcome.processes;
  say("clean") << ' ' << outcome.status << ' ' << processes_ << ' ' << getpid() << std::endl;
  return true;
}

void Sweep::run(const Stride& share, const Target& from) {
  for (Target target = from; target.process <= processes_; target.process++) {
    if (target.allocation == 0) target.allocation = share.first;
    while (try_one(target)) target.allocation += share.step;
    target.allocation = 0;
  }
}

// Lets one allocation fail. Returns false if the process did not reach this allocation: it made
// fewer allocations, or it was killed before.
bool Sweep::try_one(const Target& target) {
  say_target("try", target);
  const Outcome outcome = command_.run(target);
  if (!outcome.failed) {
    say_target(outcome.hung ? "cut" : "passed", target);
    return false;
  }
  if (outcome.hung) say_target("hung", target);
  judge(target, outcome);
  return true;
}

// Decides whether the failure leaks. It leaks if counts rise each time that this allocation fails.
// After a rise, the command runs once without a failure, and the counts are taken again. This run
// removes objects that the command, not the kernel, has left. If counts rise only once, the objects
// are cached, not leaked. A failure that cannot be repeated is reported as unrepeated.
void Sweep::judge(const Target& target, const Outcome& outcome) {
  Counts now = counts_at_rest();
  Counts risen = rises(base_, now);
  if (!risen.empty()) {
    run_without_failure(target);
    now = counts_at_rest();
    risen = rises(base_, now);
  }
  const Counts first = risen;
  bool again = true;
  for (unsigned repeats = 0; repeats < kRepeats && again && !risen.empty(); repeats++) {
    base_ = now;
    again = fails_again(target, outcome);
    run_without_failure(target);
    now = counts_at_rest();
    if (again) risen = both(rises(base_, now), risen);
  }
  base_ = now;
  if (first.empty()) return;
  const bool leaks = again && !risen.empty();
  say_target(leaks ? "leak" : again ? "once" : "unrepeated", target);
  say_rises("rise", leaks ? risen : first);
  if (!leaks) return;
  say("failed") << ' ' << outcome.source << ' ' << outcome.size << ' ' << outcome.pid << ' '
                << outcome.name << '\n';
  for (const std::string& frame : outcome.frames) say("frame") << ' ' << frame << '\n';
  if (!known_.insert(key_of(outcome, risen)).second) return;
  if (const std::optional<std::string> dump = trace(target, outcome, risen))
    say("dump") << ' ' << dump->size() << '\n' << *dump << std::flush;
}

// Runs the command without a failure. `target` is the allocation that failed in the run before.
void Sweep::run_without_failure(const Target& target) const {
  if (command_.run({}).hung) say_target("stuck", target);
}

// Tries to make the allocation with the same number and the same stack fail once more. Returns true
// if it failed.
bool Sweep::fails_again(const Target& target, const Outcome& outcome) const {
  for (unsigned attempt = 0; attempt < kAttempts; attempt++) {
    const Outcome next = command_.run(target);
    if (next.failed && next.frames == outcome.frames) return true;
  }
  return false;
}

// Repeats the failure while traces run. Returns a dump of the objects that the failure leaves, or
// nothing if the failure cannot be repeated. While the page arena is traced, kernel stacks are not
// reused. So a process makes more allocations, and the number of the allocation can change. So this
// function also tries neighbouring numbers until an allocation with the same stack fails and leaves
// objects.
std::optional<std::string> Sweep::trace(const Target& target, const Outcome& outcome,
                                        const Counts& risen) {
  std::optional<std::string> dump;
  for (uint64_t i = 0; i <= 2 * kNeighbours && !dump; i++) {
    const uint64_t distance = (i + 1) / 2;
    Target near = target;
    near.allocation += i % 2 == 0 ? distance : -distance;
    if (i % 2 == 1 && distance >= target.allocation) continue;
    const Counts before = counts_at_rest();
    const Traces traces(risen);
    if (!traces.any()) break;
    const bool same = command_.run(near).frames == outcome.frames;
    command_.run({});
    if (!both(rises(before, counts_at_rest()), risen).empty() && same) dump = traces.dump();
  }
  base_ = counts_at_rest();
  return dump;
}
