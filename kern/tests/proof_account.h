// The expected contents of a trace, accounted for without the tracer: for trace_proof_test.cc.
//
// An Account watches one source (a cache or an arena). Its slots hold all objects of its callers,
// with everything that is known of them: size and stack of the request, time, CPU, mark, and
// whether there must be a record. The last follows from the state of the trace, which the
// controller publishes with a version that is odd while a command runs. An allocation that begins
// and ends under one even version met exactly that state. If a command overlaps it, the state is
// unknown until the next comparison, at which everything is at rest. The comparison finds out, and
// from then on the account relies on the result.
//
// Besides the objects, events are tallied for each table that the source has had (its
// *generation*): those that certainly belong to the table, and those that may. So each counter of
// the table lies between two bounds, which are equal if no command overlapped an event.
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

// SplitMix64. One for each task and CPU, so that the actions of each follow from the seed.
class Random {
 public:
  void seed(uint64_t seed) { state_ = seed; }
  uint64_t next();
  uint32_t below(uint32_t n) { return static_cast<uint32_t>(next() % n); }
  bool one_in(uint32_t n) { return below(n) == 0; }

 private:
  uint64_t state_ = 0;
};

// A hash of all actions of an actor.
class Hash {
 public:
  void add(uint64_t word) { value_ = (value_ ^ word) * 0x9e3779b97f4a7c15 ^ value_ >> 29; }
  uint64_t value() const { return value_; }

 private:
  uint64_t value_ = 0;
};

// An actor: a task, or the interrupts of a CPU.
struct Actor {
  Random random;
  Hash hash;
  uint64_t events = 0;
  uint64_t remote_frees = 0;  // of objects that were certainly allocated on another CPU
  uint64_t taken_again = 0;   // of these, objects that the actor's next allocation got again
  const void* freed_remotely = nullptr;  // the last one, until the next allocation
  bool in_interrupt = false;
  uint32_t user_call = 0;  // the current one
};

enum class Expect : uint8_t {
  kRecorded,
  kNotRecorded,
  kEither,     // a command overlapped, or the trace samples
  kOrDropped,  // trace memory may have run out
};

enum class SlotState : uint8_t { kEmpty, kBusy, kFull };

// A place for one object. The actor that changes its state from empty or full to busy owns it.
struct Slot {
  std::atomic<SlotState> state{SlotState::kEmpty};
  Expect expect;
  Path path;           // of the functions that allocated
  Trail trail;         // further callers on the stack
  uint32_t user_call;  // UserCall at the allocation; 0: none
  bool in_interrupt;
  bool cpu_known;
  bool state_known;  // no command overlapped: mark and depth are exact
  uint32_t size;
  uint32_t pid;
  uint32_t cpu;
  uint32_t mark_low, mark_high;
  uint64_t time_low, time_high;  // coarse milliseconds
  uint32_t depth;                // of the trace: longest stack that is recorded
  uint32_t generation, resets;   // kUnknown if a command overlapped
  void* object;
};
inline constexpr uint32_t kUnknown = UINT32_MAX;

// The published state of a trace.
struct State {
  TracePhase phase = TracePhase::kOff;
  TraceOptions options;
  uint32_t generation = 0;  // number of tables so far
  uint32_t resets = 0;      // times that records were dropped while the trace ran
  bool lossy = false;       // trace memory may fail

  bool wants(uint32_t size, uint32_t pid) const {
    return size >= options.min_size && size <= options.max_size &&
           (options.pid == 0 || options.pid == pid);
  }
};

// Bounds of the counters of one table. `unsure`: belongs to this table, but the kind is unknown.
// `maybe`: may belong to this table or to another.
struct Tally {
  std::atomic<uint64_t> seen, filtered, unsure_filtered, maybe_allocations;
  std::atomic<uint64_t> freed, unmatched, unsure_frees, maybe_frees;
  std::atomic<bool> lossy;  // trace memory could fail at some time
};

class Account {
 public:
  constexpr Account() = default;

  static constexpr unsigned kSlots = 384;
  static constexpr unsigned kHotSlots = 6;  // half of all actions use these

  // --- For the controller. Nobody else uses an account that is not open.

  // `source` comes with a reference, which close() releases; `arena` is set if it is one. The
  // source is unused, and its trace is in `state`, with `mark`.
  void open(TraceSource source, arena* arena, uint32_t largest, const State& state, uint32_t mark);
  void close();
  bool is_open() const { return static_cast<bool>(source_); }
  TraceSource source() const { return source_; }
  // Forbids allocations from now on; waits for running ones.
  void forbid_allocations();
  bool may_allocate() const { return may_allocate_; }

  // Called around a command: events in between met either state, in a table up to `generation`.
  void begin_change(uint32_t generation) {
    newest_generation_ = generation;
    version_++;
  }
  void end_change(const State& state);
  const State& state() const { return state_; }
  // Called around a mark, which changes nothing else.
  void begin_marks(uint32_t count) { mark_high_ += count; }
  void end_marks(uint32_t count) { mark_low_ += count; }
  void set_mark(uint32_t mark) { mark_low_ = mark_high_ = mark; }
  uint32_t mark() const { return mark_low_; }

  // Called at rest. Returns the number of differences between the account and the trace, and prints
  // each. Afterwards everything unknown is known. Adds what it saw to `hash`.
  unsigned compare(Hash& hash);
  unsigned live() const;

  // --- For everybody, in any context but NMI.

  // Fills an empty slot or empties a full one, if there is one.
  void act(Actor& actor, bool prefers_to_free);
  // Frees everything that can be freed; for one task.
  void release_all(Actor& actor);
  // Holds the source. False if the account is not open.
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
  // Returns how many of the objects that may have been dropped have no record.
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

  // Published to all actors.
  std::atomic<uint32_t> version_{0};
  std::atomic<TracePhase> phase_{TracePhase::kOff};
  std::atomic<uint32_t> depth_{0}, min_size_{0}, max_size_{0}, pid_{0};
  std::atomic<uint64_t> sample_{0};
  std::atomic<uint32_t> generation_{0}, newest_generation_{0}, resets_{0};
  std::atomic<bool> lossy_{false};
  std::atomic<uint32_t> mark_low_{0}, mark_high_{0};

  // Generations from the one at the last comparison on.
  static constexpr unsigned kGenerations = 32;
  uint32_t first_generation_ = 0;
  Tally tallies_[kGenerations] = {};
  Slot slots_[kSlots] = {};
};

// Makes the name of a task that acts as process `pid`, or as none (pid 0).
inline constexpr size_t kTaskName = 32;
void make_name(uint32_t pid, char (&name)[kTaskName]);
bool is_name_of(uint32_t pid, const char* name);

// Returns the number after `key` in the text of a dump; kUnknown if the key is missing.
uint64_t number_after(std::string_view text, std::string_view key);

}  // namespace proof
