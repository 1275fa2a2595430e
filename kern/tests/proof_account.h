// An account of what a trace must say, kept without the tracer: for trace_proof_test.cc.
//
// An Account watches one source (a cache or an arena). All objects that its callers hold stand in
// its slots, with what is known of each: who asked for how much, where, when, on which CPU and
// under which mark, and whether there must be a record of it. That follows from the state of the
// trace, which the controller publishes with a version that is odd while a command is under way: an
// allocation that begins and ends under one even version met that state and no other. Of one that a
// command overlaps it is not known which state it met; the next comparison, at which everything
// stands still, says what became of it, and from then on it is held to that.
//
// Beside the objects, what happened is tallied, for each table that the source has had (its
// *generation*): events that certainly happened to it, and events of which that is not known, so
// that each counter of the table lies between two bounds. They are one number where no command came
// in between.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "arena.h"
#include "store/page_buffer.h"
#include "tests/proof_stacks.h"
#include "trace/control.h"

namespace proof {

// SplitMix64. One for each task and CPU, so that what each does follows from the seed.
class Random {
 public:
  void seed(uint64_t seed) { state_ = seed; }
  uint64_t next();
  uint32_t below(uint32_t n) { return static_cast<uint32_t>(next() % n); }
  bool one_in(uint32_t n) { return below(n) == 0; }

 private:
  uint64_t state_ = 0;
};

// What somebody has done, as one number.
class Hash {
 public:
  void add(uint64_t word) { value_ = (value_ ^ word) * 0x9e3779b97f4a7c15 ^ value_ >> 29; }
  uint64_t value() const { return value_; }

 private:
  uint64_t value_ = 0;
};

// Who acts: a task, or the interrupts of a CPU.
struct Actor {
  Random random;
  Hash hash;
  uint64_t events = 0;
  uint64_t remote_frees = 0;             // of objects that were surely allocated on another CPU
  uint64_t taken_again = 0;              // and of these, what the next allocation of the actor got
  const void* freed_remotely = nullptr;  // the last one, until there is another allocation
  bool in_interrupt = false;
  uint32_t user_call = 0;  // that it is in
};

enum class Expect : uint8_t {
  kRecorded,
  kNotRecorded,
  kEither,     // a command came in between, or it is sampled
  kOrDropped,  // there was perhaps no trace memory
};

enum class SlotState : uint8_t { kEmpty, kBusy, kFull };

// A place for one object. Whoever takes it from empty or full to busy has it for himself.
struct Slot {
  std::atomic<SlotState> state{SlotState::kEmpty};
  Expect expect;
  Path path;           // of the functions that allocated,
  Trail trail;         // and what more was on the stack
  uint32_t user_call;  // in which it was (UserCall); 0: none
  bool in_interrupt;
  bool cpu_known;
  bool state_known;  // no command came in between: mark and depth are those
  uint32_t size;
  uint32_t pid;
  uint32_t cpu;
  uint32_t mark_low, mark_high;
  uint64_t time_low, time_high;  // coarse milliseconds
  uint32_t depth;                // of the trace; what is recorded of a stack at most
  uint32_t generation, resets;   // kUnknown if a command came in between
  void* object;
};
inline constexpr uint32_t kUnknown = UINT32_MAX;

// What is published of a trace.
struct State {
  TracePhase phase = TracePhase::kOff;
  TraceOptions options;
  uint32_t generation = 0;  // tables that there have been
  uint32_t resets = 0;      // times that records were dropped while it ran
  bool lossy = false;       // trace memory may fail

  bool wants(uint32_t size, uint32_t pid) const {
    return size >= options.min_size && size <= options.max_size &&
           (options.pid == 0 || options.pid == pid);
  }
};

// Bounds of the counters of one table. `unsure`: it happened to this table, but not known what.
// `maybe`: not known whether it happened to this one.
struct Tally {
  std::atomic<uint64_t> seen, filtered, unsure_filtered, maybe_allocations;
  std::atomic<uint64_t> freed, unmatched, unsure_frees, maybe_frees;
  std::atomic<bool> lossy;  // at any time
};

class Account {
 public:
  constexpr Account() = default;

  static constexpr unsigned kSlots = 384;
  static constexpr unsigned kHotSlots = 6;  // that half of all is done with

  // --- The controller's. Nobody else uses an account that is not open.

  // `source` with a reference, which close() gives up; `arena` if it is one. Nothing of it is in
  // use; its trace begins as `state` says, with `mark`.
  void open(TraceSource source, arena* arena, uint32_t largest, const State& state, uint32_t mark);
  void close();
  bool is_open() const { return static_cast<bool>(source_); }
  TraceSource source() const { return source_; }
  // No allocations from now on; waits for those under way.
  void forbid_allocations();
  bool may_allocate() const { return may_allocate_; }

  // Around a command: what happens in between met one state or another, of a table of up to
  // `generation`.
  void begin_change(uint32_t generation) {
    newest_generation_ = generation;
    version_++;
  }
  void end_change(const State& state);
  const State& state() const { return state_; }
  // Around a mark, which changes nothing else.
  void begin_marks(uint32_t count) { mark_high_ += count; }
  void end_marks(uint32_t count) { mark_low_ += count; }
  void set_mark(uint32_t mark) { mark_low_ = mark_high_ = mark; }
  uint32_t mark() const { return mark_low_; }

  // Everything stands still. How many differences there are between the account and the trace; each
  // is printed. Then what was not known is known. Adds to `hash` what was seen.
  unsigned compare(Hash& hash);
  unsigned live() const;

  // --- Everyone's, in any context but NMI.

  // Fills an empty slot or empties a full one, if that can be.
  void act(Actor& actor, bool prefers_to_free);
  // Frees all that can be freed; for one task.
  void release_all(Actor& actor);
  // While it is held the source stays. False if it is not open.
  bool hold();
  void drop() { holders_--; }

 private:
  struct View {
    uint32_t version;
    State state;
    bool same_as(const View& other) const { return version == other.version && version % 2 == 0; }
  };
  View look() const;
  Tally& tally(uint32_t generation) { return tallies_[generation - first_generation_]; }
  void allocate(Slot& slot, Actor& actor);
  void release(Slot& slot, Actor& actor);
  void tally_allocation(Slot& slot, const View& before, const View& after);
  void tally_free(const Slot& slot, const View& before, const View& after);

  void difference(const char* pattern, ...) __attribute__((format(printf, 2, 3)));
  bool says() const;
  void describe(const Slot& slot);
  void describe(const TraceRecord& record);
  size_t copy(PageBuffer<TraceRecord>& records, TraceCounters* counters);
  void compare_state();
  void compare_counters(const TraceCounters& counters, uint64_t missing);
  // How many of the objects that may have been dropped have no record.
  uint64_t compare_records(TraceRecord* records, size_t count);
  void compare_record(const Slot& slot, const TraceRecord& record);
  void compare_stack(const Slot& slot, const TraceRecord& record);
  void compare_dump(const TraceCounters& counters);
  void settle_slot(Slot& slot, bool recorded);
  void forget_old_generations();

  TraceSource source_;
  arena* arena_ = nullptr;
  uint32_t largest_ = 0;
  uint64_t failures_before_ = 0;
  unsigned differences_ = 0;
  State state_;  // the controller's own

  std::atomic<bool> may_allocate_{false};
  std::atomic<uint32_t> allocating_{0};
  std::atomic<uint32_t> holders_{0};
  std::atomic<bool> open_{false};
  std::atomic<uint64_t> failures_{0};

  // Published.
  std::atomic<uint32_t> version_{0};
  std::atomic<TracePhase> phase_{TracePhase::kOff};
  std::atomic<uint32_t> depth_{0}, min_size_{0}, max_size_{0}, pid_{0};
  std::atomic<uint64_t> sample_{0};
  std::atomic<uint32_t> generation_{0}, newest_generation_{0}, resets_{0};
  std::atomic<bool> lossy_{false};
  std::atomic<uint32_t> mark_low_{0}, mark_high_{0};

  // Of generations since the last comparison, and the one at that time.
  static constexpr unsigned kGenerations = 32;
  uint32_t first_generation_ = 0;
  Tally tallies_[kGenerations] = {};
  Slot slots_[kSlots] = {};
};

// The name of a task that plays a process, or of one that does not (pid 0).
inline constexpr size_t kTaskName = 32;
void make_name(uint32_t pid, char (&name)[kTaskName]);
bool is_name_of(uint32_t pid, const char* name);

// The number after `key` in the text of a dump; kUnknown if the key is not there.
uint64_t number_after(std::string_view text, std::string_view key);

}  // namespace proof
