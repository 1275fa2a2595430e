// leakfuzz: makes random system calls, and looks for objects that they leak.
//
//   leakfuzz fuzz [seed=N] [seconds=N] [workers=N] [uids=0,65534,65533]
//   leakfuzz play [traced] [workers=N] [rounds=N] PROGRAM… | -f FILE
//   leakfuzz each [traced] [workers=N] [rounds=N] PROGRAMS… | -f FILE
//   leakfuzz run [workers=N] PROGRAM… | -f FILE
//   leakfuzz c PROGRAM…
//
// `fuzz` makes programs (program.h) and runs them in batches. In a batch, programs of all users in
// `uids` run at the same time. Every third batch is traced. After each batch, leakfuzz removes what
// the programs have left, and checks the system. It looks for live counts that have risen, for
// locks that are left, for wrong equations between the tracer's counters (identities, rest.h), for
// processes that cannot be killed, and for harm to processes of other users (bystanders.h). If a
// count has risen, the batch runs again, up to twice. leakfuzz reports a leak if counts rise in
// both repetitions, or if a count has risen in several batches and never falls. Rises in the first
// batches are ignored. Before all else, `fuzz` and `play` check the traces of references that the
// kernel command line has started, and end these traces.
//
// `play` runs the given programs in several rounds, with these checks after each round. A PROGRAM
// is a line "UID CALL; CALL …". It is a leak if counts rise in every round after the first.
//
// `each` takes several lists of programs, each written `PROGRAM | PROGRAM …`. For each list it
// prints `try N` and plays the list. It ends with the first list that has a finding. `run` runs
// programs once without checks, for `make leaktest`, which makes its own checks. `c` prints
// programs as one C program.
//
// Standard output is the log that the host follows (scripts/leakfuzz). Each program is logged
// before it runs, so that it can be replayed even if the machine dies. The lines of the log:
//
//   batch N traced|plain   run PROGRAM   rest calls N places N kept N
//   rose LINE   again      found KIND LINE     nothing found
//
// KIND is leak, identity, hang, death, starved, uncharged or locked. The line `rest` ends a batch.
// Its numbers are the system calls made so far, the places in the kernel's code reached so far
// (execute.h), and the programs that are stored.
//
// Exit status 0: no finding; 1: a finding; 2: an error, so there is no result. Only root can run
// leakfuzz. Run it only on a disposable system, because it removes all of #tmp.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

#include "as_c.h"
#include "bystanders.h"
#include "execute.h"
#include "generate.h"
#include "pools.h"
#include "rest.h"
#include "tool/files.h"

namespace {

constexpr size_t kBatch = 96;  // programs in a batch
// Every other batch has fewer programs, which run one after the other: the threads and processes of
// a program that has all CPUs for itself meet more often.
constexpr size_t kAlone = 24;
constexpr unsigned kAloneEvery = 2;
constexpr unsigned kTracedEvery = 3;
constexpr unsigned kWarmUp = 4;  // batches in which one-time allocations may happen
// A count that rises in this many batches and never falls is a leak, even if it does not rise when
// a batch is run again.
constexpr unsigned kRises = 6;
// This count varies with the number of slabs. So a value counts as a rise only if it is above all
// earlier values.
constexpr const char* kSways = "bytes in pages";
// Caches that are as full after a batch as before it: a lock that remains has no owner.
constexpr const char* kLockCaches[] = {"file_lock", "locked_file"};
// Users of the bystanders. No program runs as the second one.
const std::vector<uint32_t> kBystanders{0, 65532};

// Writes a line with one system call, since the machine may die right after it.
void say(const std::string& line) {
  const std::string whole = line + "\n";
  for (size_t done = 0; done < whole.size();) {
    const ssize_t size = write(1, whole.data() + done, whole.size() - done);
    if (size <= 0) _exit(2);
    done += static_cast<size_t>(size);
  }
}

// Prints what is known about a process that cannot be killed: its /proc/PID/stat, and the kernel
// stacks of all tasks.
void tell_about(int pid) {
  for (const std::string& path :
       {"/proc/" + std::to_string(pid) + "/stat", std::string("#debug/stacks")}) {
    try {
      read_lines(path, [](std::string_view line) { say("found hang " + std::string(line)); });
    } catch (const std::exception& error) {
      say("found hang " + std::string(error.what()));
    }
  }
}

struct Options {
  uint64_t seed = 1, seconds = 60;
  unsigned workers = 6, rounds = 4;
  bool traced = false;
  std::vector<uint32_t> uids{0, 65534, 65533};
};

class Fuzzer {
 public:
  Fuzzer(const Options& options)
      : options_(options),
        bystanders_(kBystanders),
        executor_(options.workers),
        generator_(options.seed) {}

  // Checks the traces of references that run since boot, if there are any.
  bool boot_traces();
  bool awake();
  bool fuzz();
  bool play(const std::vector<Program>& programs);
  bool each(const std::vector<std::vector<Program>>& lists);
  // Runs programs without checks.
  bool just_run(const std::vector<Program>& programs);

 private:
  using Programs = std::vector<Program>;
  // Runs the programs and cleans up. Checks for processes that cannot be killed, for harm to
  // bystanders and, if `traced`, for broken identities. If there is a finding, prints it and
  // returns false.
  bool run(const Programs& programs, bool traced, bool log);
  // Calls run(), then takes the counts. Stores in `rises` which counts are above those in
  // `counts_`. Then stores the new counts in `counts_`. Returns false if run() does, or if locks
  // are left.
  bool run_and_count(const Programs& programs, bool traced, bool log,
                     std::vector<std::string>& rises);
  bool believe(const Programs& programs, bool traced, const std::vector<std::string>& rises);

  const Options options_;
  Bystanders bystanders_;  // before rest_, which spares the processes that are there
  Rest rest_;
  Executor executor_;
  Generator generator_;
  bool learning_ = false;
  bool alone_ = false;  // programs run one after the other
  Counts counts_;
  uint64_t last_pages_ = 0;  // count of kSways at the last check
  // For each count: the number of batches that raised the count in their first run, but had a
  // second or third run without any rise. The entry of a count is erased when the count falls.
  std::map<std::string, unsigned> rises_;
};

bool Fuzzer::run(const Programs& programs, bool traced, bool log) {
  if (traced) rest_.start_traces();
  bystanders_.begin();
  int immortal = executor_.run(
      programs, alone_ ? 1 : options_.workers,
      [&](const Program& program) {
        if (log) say("run " + text_of(program));
      },
      [&](const Program& program) {
        if (learning_) generator_.keep(program);
      });
  const std::vector<std::string> harm = bystanders_.end();
  if (immortal == 0) immortal = rest_.clean_up();
  if (immortal != 0) {
    say("found hang process " + std::to_string(immortal) + " cannot be killed");
    tell_about(immortal);
    return false;
  }
  for (const std::string& line : harm) say("found " + line);
  for (const std::string& file : rest_.in_use()) say("found locked " + file + " stays in use");
  if (!harm.empty() || !rest_.in_use().empty()) return false;
  if (traced) {
    const auto broken = rest_.broken_identities();
    for (const std::string& line : broken) say("found identity " + line);
    if (!broken.empty()) return false;
  }
  rest_.reset_traces();
  return true;
}

bool Fuzzer::run_and_count(const Programs& programs, bool traced, bool log,
                           std::vector<std::string>& rises) {
  if (!run(programs, traced, log)) return false;
  Counts now = rest_.counts();
  rises = risen(counts_, now);
  if (!rises.empty()) {
    // Some frees are delayed: waits for them, and counts again.
    sleep_milliseconds(100);
    now = rest_.counts();
    rises = risen(counts_, now);
  }
  bool locked = false;
  for (const char* const name : kLockCaches) {
    if (now[name] <= counts_[name]) continue;
    say(std::string("found locked ") + name + " was " + std::to_string(counts_[name]) + ", is " +
        std::to_string(now[name]));
    locked = true;
  }
  if (locked) return false;
  for (const auto& [name, was] : counts_) {
    if (now[name] < (name == kSways ? last_pages_ : was)) rises_.erase(name);
  }
  last_pages_ = now[kSways];
  now[kSways] = std::max(now[kSways], counts_[kSways]);
  counts_ = std::move(now);
  return true;
}

// Called after a batch that raised the counts `rises`. Runs the batch's programs again, up to
// twice. It is a leak if counts rise both times, or if one of `rises` has risen in kRises batches.
// Prints the counts of a leak. Returns false after a leak or any other finding.
bool Fuzzer::believe(const Programs& programs, bool traced, const std::vector<std::string>& rises) {
  for (const std::string& line : rises) say("rose " + line);
  std::vector<std::string> again;
  for (int round = 0; round < 2; round++) {
    say("again");
    if (!run_and_count(programs, traced, false, again)) return false;
    if (!again.empty()) continue;
    bool often = false;
    for (const std::string& line : rises)
      often |= ++rises_[line.substr(0, line.find(" was "))] >= kRises;
    if (often) break;
    return true;
  }
  for (const std::string& line : again.empty() ? rises : again) say("found leak " + line);
  return false;
}

bool Fuzzer::boot_traces() {
  // Programs that take references on one CPU and put them on another.
  const Programs some(
      48, *parse_program("0 open W0 P33 0 0; dup 3; fork; nanosleep 4 0 S9 0; dup 3; yield; close "
                         "3; chdir P29; yield; fork; chdir P20"));
  if (!just_run(some)) return false;
  const auto broken = rest_.broken_boot_traces();
  for (const std::string& line : broken) say("found identity " + line);
  return broken.empty();
}

// Leaks an object in each of three rounds, to prove that the checks find a leak. Returns true if
// they do. The leaked objects are not freed.
bool Fuzzer::awake() {
  const Programs leak{*parse_program("0 open W0 L0 0 0; close 3")};
  counts_ = rest_.counts();
  for (int round = 0; round < 3; round++) {
    std::vector<std::string> rises;
    if (!run_and_count(leak, false, false, rises)) return false;
    const bool found = std::any_of(rises.begin(), rises.end(), [](const std::string& line) {
      return line.starts_with("leaky ");
    });
    if (!found) return false;
  }
  say("awake it finds a leak");
  return true;
}

bool Fuzzer::fuzz() {
  const uint64_t end = milliseconds() + options_.seconds * 1000;
  const bool traces_are_right = boot_traces();
  if (!awake()) throw std::runtime_error("the planted leak is not found");
  if (!traces_are_right) return false;
  learning_ = true;
  counts_ = rest_.counts();
  for (unsigned batch = 0; milliseconds() < end; batch++) {
    const bool traced = batch % kTracedEvery == 2;
    say("batch " + std::to_string(batch) + (traced ? " traced" : " plain"));
    Programs programs;
    alone_ = batch % kAloneEvery == 1;
    for (size_t i = 0; i < (alone_ ? kAlone : kBatch); i++)
      programs.push_back(generator_.next(options_.uids[i % options_.uids.size()]));
    std::vector<std::string> rises;
    if (!run_and_count(programs, traced, true, rises)) return false;
    if (executor_.places() == 0)
      throw std::runtime_error("the kernel reports no places: #coverage");
    if (batch >= kWarmUp && !rises.empty() && !believe(programs, traced, rises)) return false;
    say("rest calls " + std::to_string(executor_.calls()) + " places " +
        std::to_string(executor_.places()) + " kept " + std::to_string(generator_.kept()));
  }
  say("nothing found");
  return true;
}

bool Fuzzer::play(const Programs& programs) {
  if (!boot_traces()) return false;
  std::vector<std::string> rises;
  counts_ = rest_.counts();
  bool always = options_.rounds > 1;
  for (unsigned round = 0; round < options_.rounds; round++) {
    if (!run_and_count(programs, options_.traced, true, rises)) return false;
    if (round > 0) always &= !rises.empty();
  }
  for (const std::string& line : rises) say(always ? "found leak " + line : "rose " + line);
  if (!always) say("nothing found");
  return !always;
}

bool Fuzzer::each(const std::vector<Programs>& lists) {
  for (size_t i = 0; i < lists.size(); i++) {
    say("try " + std::to_string(i));
    if (!play(lists[i])) return false;
  }
  return true;
}

bool Fuzzer::just_run(const Programs& programs) {
  return executor_.run(
             programs, options_.workers, [](const Program&) {}, [](const Program&) {}) == 0 &&
         rest_.clean_up() == 0;
}

[[noreturn]] void usage(const std::string& why) {
  fprintf(stderr,
          "leakfuzz: %s\n"
          "usage: leakfuzz fuzz [seed=N] [seconds=N] [workers=N] [uids=UID,…]\n"
          "       leakfuzz play [traced] [workers=N] [rounds=N] 'UID CALL; CALL …' … | -f FILE\n"
          "       leakfuzz each [traced] [workers=N] [rounds=N] 'PROGRAM | PROGRAM …' … | -f FILE\n"
          "       leakfuzz run [workers=N] 'UID CALL; CALL …' … | -f FILE\n"
          "       leakfuzz c 'UID CALL; CALL …' …\n",
          why.c_str());
  exit(2);
}

uint64_t number(const std::string& text, uint64_t least, uint64_t most) {
  char* end;
  const uint64_t value = strtoull(text.c_str(), &end, 10);
  if (text.empty() || *end || value < least || value > most)
    usage("'" + text + "' is not a number from " + std::to_string(least) + " to " +
          std::to_string(most));
  return value;
}

std::vector<uint32_t> users(const std::string& text) {
  std::vector<uint32_t> uids;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    uids.push_back(static_cast<uint32_t>(number(text.substr(at, end - at), 0, UINT32_MAX)));
    at = end + 1;
  }
  return uids;
}

// Parses `word` as an option and stores its value. Returns false if `word` is no option.
bool option(const std::string& word, Options& options) {
  const size_t equals = word.find('=');
  const std::string key = word.substr(0, equals);
  if (word == "traced") {
    options.traced = true;
    return true;
  }
  if (equals == std::string::npos || word.find(' ') != std::string::npos) return false;
  const std::string value = word.substr(equals + 1);
  if (key == "seed")
    options.seed = number(value, 0, UINT64_MAX);
  else if (key == "seconds")
    options.seconds = number(value, 1, 1'000'000);
  else if (key == "workers")
    options.workers = static_cast<unsigned>(number(value, 1, 16));
  else if (key == "rounds")
    options.rounds = static_cast<unsigned>(number(value, 1, 1000));
  else if (key == "uids")
    options.uids = users(value);
  else
    return false;
  return true;
}

constexpr std::string_view kBetween = " | ";  // separates the programs of a list

int run(const std::vector<std::string>& words) {
  static const std::vector<std::string> kCommands{"fuzz", "play", "each", "run", "c"};
  if (words.empty() || std::count(kCommands.begin(), kCommands.end(), words[0]) == 0)
    usage("fuzz, play, each, run or c?");
  const std::string& command = words[0];
  Options options;
  std::vector<Program> programs;            // all programs
  std::vector<std::vector<Program>> lists;  // the programs of each line
  const auto add = [&](std::string_view line) {
    if (line.empty()) return;
    lists.emplace_back();
    for (std::string_view rest = line; !rest.empty();) {
      const std::string_view text = rest.substr(0, rest.find(kBetween));
      rest.remove_prefix(std::min(text.size() + kBetween.size(), rest.size()));
      auto program = parse_program(text);
      if (!program) usage("not a program: " + std::string(text));
      programs.push_back(*program);
      lists.back().push_back(std::move(*program));
    }
  };
  for (size_t i = 1; i < words.size(); i++) {
    if (option(words[i], options)) continue;
    if (command == "fuzz") usage("'" + words[i] + "'?");
    if (words[i] == "-f" && i + 1 < words.size())
      read_lines(words[++i], add);
    else
      add(words[i]);
  }
  if (getuid() != 0) usage("only root can run it");
  if (command != "fuzz" && programs.empty()) usage("no program");
  make_pools();
  if (command == "c") {
    print_as_c(programs);
    return 0;
  }
  Fuzzer fuzzer(options);
  if (command == "fuzz") return fuzzer.fuzz() ? 0 : 1;
  if (command == "each") return fuzzer.each(lists) ? 0 : 1;
  return (command == "play" ? fuzzer.play(programs) : fuzzer.just_run(programs)) ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    fprintf(stderr, "leakfuzz: %s\n", error.what());
    return 2;
  }
}
