// Computes the expected contents of a trace without the tracer, for trace_proof_test.cc.
//
// An Account watches one source (a cache or an arena). Actors, which are tasks and interrupts of
// the test, allocate objects from the source and free them. The slots of the account contain all
// objects that are allocated. A slot stores what is known of its object: size and stack of the
// request, time, CPU, mark, and whether the trace must have a record of the object.
//
// The state of the trace decides whether a record must exist. Only one task, the controller, gives
// trace commands and so changes this state. The controller publishes the state with a version,
// which is odd while a command runs. If the version is even and the same before and after an
// allocation, the allocation met exactly the published state. If a command overlaps the allocation,
// the account does not know whether there is a record. The next comparison searches for the record
// while all actors pause. From then on the account knows whether the record exists.
//
// An Account also counts events, which are allocations and frees. Each table of records that the
// source has had is a *generation*. For each generation, the account counts the events that
// certainly belong to the table and the events that may belong to it. So each counter of the table
// lies between two bounds. The bounds are equal if no command overlapped an event, the trace does
// not sample, and trace memory cannot have run out.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "arena.h"
#include "intern/page_buffer.h"
#include "tests/proof_stacks.h"
#include "trace/control/control.h"

namespace proof {

// The SplitMix64 generator. Each task and each CPU has its own, so that its actions follow from the
// seed.
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
  uint64_t remote_frees = 0;  // frees of objects that were certainly allocated on another CPU
  // Remote frees after which the actor's next allocation got the same object.
  uint64_t taken_again = 0;
  const void* freed_remotely = nullptr;  // object of the last remote free; set to nullptr by the
                                         // next allocation
  bool in_interrupt = false;
  uint32_t user_call = 0;  // the current simulated system call; 0: none
};

enum class Expect : uint8_t {
  kRecorded,
  kNotRecorded,
  kEither,     // a command overlapped the allocation, or the trace records only samples
  kOrDropped,  // trace memory may have run out
};

enum class SlotState : uint8_t { kEmpty, kBusy, kFull };

// A slot for one object. To own the slot, an actor changes its `state` from empty or full to busy.
struct Slot {
  std::atomic<SlotState> state{SlotState::kEmpty};
  Expect expect;
  Path path;           // the test's functions that led to the allocation
  Trail trail;         // a summary of the kernel stack
  uint32_t user_call;  // UserCall at the allocation; 0: none
  bool in_interrupt;
  bool cpu_known;
  bool state_known;  // only `mark` commands may have overlapped, so `depth` is exact
  uint32_t size;
  uint32_t pid;
  uint32_t thread;  // 0: the process's first thread, or no process
  CpuId cpu;
  uint32_t mark_low, mark_high;
  Milliseconds time_low, time_high;
  uint32_t depth;               // the trace's depth: the longest stack that it records
  uint32_t generation, resets;  // kUnknown if a command overlapped
  void* object;
};
inline constexpr uint32_t kUnknown = UINT32_MAX;

// The published state of a trace.
struct State {
  TracePhase phase = TracePhase::kOff;
  TraceOptions options;
  uint32_t generation = 0;  // number of tables so far
  uint32_t resets = 0;      // number of resets while the trace ran
  bool lossy = false;       // allocations of trace memory may fail

  bool wants(uint32_t size, uint32_t pid) const {
    return size >= options.min_size && size <= options.max_size &&
           (options.pid == 0 || options.pid == pid);
  }
};

// Counts of events, from which the bounds of one table's counters follow. `unsure_filtered` counts
// allocations that met this table, but may or may not have been filtered. `unsure_frees` counts
// frees that met this table, and that the trace may have counted as freed or as unmatched.
// `maybe_allocations` and `maybe_frees` count events that belong to this table or to another one.
struct Tally {
  std::atomic<uint64_t> seen, filtered, unsure_filtered, maybe_allocations;
  std::atomic<uint64_t> freed, unmatched, unsure_frees, maybe_frees;
  std::atomic<bool> lossy;  // an allocation of trace memory may have failed
};

class Account {
 public:
  constexpr Account() = default;

  static constexpr unsigned kSlots = 384;
  static constexpr unsigned kHotSlots = 6;  // half of all actions use these

  // --- For the controller. While an account is closed, act() does nothing and hold() fails.

  // Takes over the caller's reference to `source`; close() releases the reference. `arena` is set
  // if the source is an arena. `largest` is the size of the largest request in bytes. The source
  // must not have been used yet; `state` and `mark` are those of its trace now.
  void open(TraceSource source, arena* arena, uint32_t largest, const State& state, uint32_t mark);
  void close();
  bool is_open() const { return static_cast<bool>(source_); }
  TraceSource source() const { return source_; }
  // Forbids allocations from now on, and waits for those that are under way.
  void forbid_allocations();
  bool may_allocate() const { return may_allocate_; }

  // Call begin_change() before a command and end_change() after it. An event between the two calls
  // meets the old or the new state. The event belongs to `generation` or to an earlier generation.
  void begin_change(uint32_t generation) {
    newest_generation_ = generation;
    version_++;
  }
  void end_change(const State& state);
  const State& state() const { return state_; }
  // A command of `count` lines `mark` changes only the mark. For such a command, call begin_marks()
  // and end_marks() instead of begin_change() and end_change().
  void begin_marks(uint32_t count) { mark_high_ += count; }
  void end_marks(uint32_t count) { mark_low_ += count; }
  void set_mark(uint32_t mark) { mark_low_ = mark_high_ = mark; }
  uint32_t mark() const { return mark_low_; }

  // Called while all actors pause. Compares the account with the trace, prints each difference, and
  // returns the number of differences. Afterwards the account knows for each object whether it has
  // a record. Adds the compared values to `hash`.
  unsigned compare(Hash& hash);
  unsigned live() const;

  // --- For all actors, in any context but NMI.

  // Looks at up to four random slots. With `prefers_to_free`, frees the object of the first full
  // slot; otherwise allocates an object into the first empty slot.
  void act(Actor& actor, bool prefers_to_free);
  // Frees the objects of all full slots. Called after all other actors have ended.
  void release_all(Actor& actor);
  // Holds the source: close() waits until drop(). False if the account is not open.
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
  // Returns the number of objects that have no record because the trace may have dropped it.
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
  State state_;  // only for the controller

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

  // The generations since the last comparison. The first one was current at that comparison.
  static constexpr unsigned kGenerations = 32;
  uint32_t first_generation_ = 0;
  Tally tallies_[kGenerations] = {};
  Slot slots_[kSlots] = {};
};

// Makes the name of a task that acts as process `pid`. If `pid` is 0, the task acts as no process.
inline constexpr size_t kTaskName = 32;
void make_name(uint32_t pid, char (&name)[kTaskName]);
bool is_name_of(uint32_t pid, const char* name);

}  // namespace proof
