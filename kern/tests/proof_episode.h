// Runs one episode of the tracer's proof (trace_proof_test.cc). The test's own task, the
// controller, gives trace commands and disturbs the actors in other ways. After each round it
// pauses all actors and compares the accounts with the traces.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "intern/trace_memory.h"
#include "lib/result.h"
#include "tests/proof_account.h"
#include "tests/proof_workload.h"
#include "tests/team.h"
#include "trace/control/command_impl.h"

namespace proof {

struct Line {
  TraceWord word;
  TraceOptions options;
};

// The last commands and their results, to find the cause of a difference.
class History {
 public:
  void add(const char* name, std::string_view text, int error);
  void print() const;

 private:
  static constexpr unsigned kEntries = 12, kLength = 160;
  char entries_[kEntries][kLength] = {};
  unsigned count_ = 0;
};

class Episode {
 public:
  explicit Episode(uint64_t seed);
  ~Episode();
  // Runs one round. False if there was a difference.
  bool round();
  uint64_t hash() const { return hash_.value(); }
  // Returns the sum of one counter over all actors.
  uint64_t sum(uint64_t Actor::*count) const;
  void print_history() const { history_.print(); }

 private:
  struct Model {
    State state;
    uint32_t mark = 0;
  };

  void do_something();
  void command();
  Line random_line(bool may_start);
  static Errno apply(Model& model, const Line& line, bool passes_over);
  void give(std::span<const Line> lines, Account* one);
  void renew_cache();
  void change_faults();
  void change_limit();
  void change_checking();
  void end_chosen_trace();
  void set_lossy();
  void pause();
  void resume();
  bool compare();

  Random random_;
  Hash hash_;
  Team team_{worker, nullptr};
  Team readers_{reader, nullptr};
  Team sweepers_{sweeper, nullptr};
  // The predicted state of all sources without an account. This state also determines whether the
  // next cache that is created is traced.
  Model others_;
  const uint64_t usual_limit_ = trace_memory_limit();
  bool low_limit_ = false;
  bool pages_fail_ = false;
  bool lossy_ = false;
  bool good_ = true;
  History history_;
};

}  // namespace proof
