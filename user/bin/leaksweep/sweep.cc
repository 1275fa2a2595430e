#include "sweep.h"

#include <unistd.h>

#include <cstring>
#include <iostream>
#include <stdexcept>

#include "tool/files.h"

namespace {

constexpr unsigned kMostClean = 12;  // runs without failures
constexpr unsigned kQuiet = 2;       // the last of them, which must leave nothing
constexpr unsigned kRepeats = 3;     // of a failure that left something
constexpr unsigned kAttempts = 3;    // to repeat it
constexpr uint64_t kNeighbours = 8;  // of an allocation, where it may be when there is a trace

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

// The traces of some caches and arenas, for its lifetime.
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
  // Reads the records; the reading itself is not recorded.
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

// An allocation with the same stack may fail in the same way.
std::string key_of(const Outcome& outcome, const Counts& risen) {
  std::string key;
  for (const std::string& frame : outcome.frames) key += frame + ' ';
  for (const auto& source : risen) key += source.first + ' ';
  return key;
}

}  // namespace

bool Sweep::warm_up() {
  Outcome outcome = command_.run({}, true);
  command_.run({.process = 1, .allocation = 1});  // and this program's own allocations for it
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

// False if the process makes fewer allocations, as far as is known: a killed process might have
// made more.
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

// Counts that rise with every failure with the same stack accuse it. A count that rises only once
// is cached objects, and leftovers that the next run without a failure removes were the command's.
// If the same allocation cannot be made to fail again, the question stays open.
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

// After a failure of `target`.
void Sweep::run_without_failure(const Target& target) const {
  if (command_.run({}).hung) say_target("stuck", target);
}

// Can the same allocation be made to fail once more?
bool Sweep::fails_again(const Target& target, const Outcome& outcome) const {
  for (unsigned attempt = 0; attempt < kAttempts; attempt++) {
    const Outcome next = command_.run(target);
    if (next.failed && next.frames == outcome.frames) return true;
  }
  return false;
}

// A dump of the objects that such a failure leaves behind; nothing if it cannot be made. Kernel
// stacks are not reused while the page arena is traced: a process's extra allocations may shift its
// numbers.
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
