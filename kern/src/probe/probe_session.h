// A session of #probe: what its user has asked for, and what has been found.
//
// States, as those of a trace: off (being told what to do) → running → stopped → running …. From
// the first start on functions and options are fixed and the session is a user of the tracer's
// tables, until it ends.
//
// What hits change is each CPU's own (StackCounts, the tallies here), lock-free (ProbeEvents,
// ProbePairs) or the trace tables', under a shard's lock; control, under the session's mutex,
// changes none of it while hits may come, but for what clear() takes away in interprocessor
// interrupts. Memory that hits take comes from the pool of trace_memory.h. A hit may come with any
// locks held, also those that taking a page from the arena needs, so the pool is topped up only in
// hits that come with none: others do with what there is, and what then cannot be recorded is
// counted.
//
// Cost of a hit that is counted by a kernel stack of 11 frames: docs/speed.md.
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>

#include "core/sleep.h"
#include "probe/probe.h"
#include "probe/probe_counts.h"
#include "probe/probe_events.h"
#include "probe/probe_functions.h"
#include "probe/probe_options.h"
#include "probe/probe_pairs.h"
#include "probe/stack_counts.h"
#include "store/current_context.h"
#include "store/recent_user_stacks.h"
#include "trace/dump/trace_binary.h"

// Programs by their path, for arming: what the trace layer cannot reach itself.
class ProbePrograms {
 public:
  virtual Result<Chan*> open(std::string_view path) = 0;
  virtual void close(Chan* program) = 0;

 protected:
  ~ProbePrograms() = default;
};

class ProbeSession final : public ProbeConsumer {
 public:
  // What the counts' second line says; hits = counted + filtered + lost.
  struct Tallies {
    uint64_t counted = 0, filtered = 0, lost = 0, stacks_lost = 0, contexts_lost = 0, truncated = 0;
    uint64_t hits() const { return counted + filtered + lost; }
  };

  // ENOMEM. May sleep, as all but hit().
  static Result<ProbeSession*> create(uint32_t number);
  // Takes the probes off first. Nobody uses it.
  static void destroy(ProbeSession* session);

  uint32_t number() const { return number_; }
  // Several commands, one a line; on failure nothing has changed and the error string is set.
  // EINVAL, ENOENT, EBUSY, ENOMEM and what opening a program gives.
  Result<void> command(std::string_view text, ProbePrograms& programs);

  // For reading.
  struct State {
    TracePhase phase;
    uint32_t functions;
    uint64_t kept_out;
    Tallies tallies;
  };
  // All counts, added up and sorted, and what belongs to them. ENOMEM.
  Result<State> copy_counts(ProbeCounts& counts);
  bool tells_processes_apart();
  // From now on what is allocated and freed is an event too. ENOMEM.
  Result<void> open_events();
  // The next event, as ProbeEvents::take(); false if there is none.
  bool take_event(ProbeEvent* event, bool* any, uint64_t* lost);
  // Whether a reader of events need not wait: there is one, or none will come until the next start.
  bool events_ready();
  bool events_ended();
  // What is outstanding, to be deleted with delete_outstanding() before the session ends. ENOMEM.
  Result<TraceBinary*> copy_outstanding();
  static void delete_outstanding(TraceBinary* dump);

  void hit(const ProbeHit& hit) override;
  void process_left(uint32_t pid, ProcessLeft how) override;
  void memory_mapped(uint64_t address, uint64_t size) override;
  void memory_unmapped(uint64_t address, uint64_t size) override;

 private:
  // Of one CPU: changed by it alone, with interrupts off.
  struct alignas(64) CpuPart {
    StackCounts::Part counts;
    std::atomic<uint64_t> filtered{0}, lost{0}, done{0};  // done: counted, but not by stack
    std::atomic<uint64_t> stacks_lost{0}, contexts_lost{0}, truncated{0};
    Sampler sampler;
    RecentUserStacks user_stacks;
    StackCounts::Part::Contents taken;  // by clear, until it is freed

    void take_away();
  };
  struct Undo {
    ProbeOptions options;
    ProbeFunctions::Mark functions;
  };

  explicit ProbeSession(uint32_t number) : number_(number) {}
  ~ProbeSession();

  Result<void> check(std::string_view text);
  Result<void> apply(const ProbeCommand& command, ProbePrograms& programs) REQUIRES(mutex_);
  Result<void> start(ProbePrograms& programs) REQUIRES(mutex_);
  Result<void> prepare() REQUIRES(mutex_);
  Result<void> arm(ProbePrograms& programs) REQUIRES(mutex_);
  void disarm() REQUIRES(mutex_);
  void clear() REQUIRES(mutex_);
  void forget_counts();
  Result<void> use_tables() REQUIRES(mutex_);
  Result<void> make_tables() REQUIRES(mutex_);
  Result<void> make_events() REQUIRES(mutex_);

  // Hits.
  static void increment(std::atomic<uint64_t>& tally) {
    tally.store(tally.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  bool wanted_here(const Cpu& cpu) const;
  bool wanted(const Cpu& cpu, uint8_t actions) const;
  void hit_slowly(const ProbeHit& hit);
  void count(const ProbeHit& hit, const ProbeRule& rule, const Cpu& cpu, CpuPart& part);
  void act(const ProbeHit& hit, const ProbeRule& rule, const Cpu& cpu, CpuPart& part);
  // Each is false if something was lost.
  bool call_allocates(const ProbeHit& hit, const ProbeRule& rule, const Cpu& cpu, CpuPart& part);
  bool return_allocates(const ProbeHit& hit, const ProbeRule& rule, const Cpu& cpu);
  void frees(const ProbeHit& hit, const ProbeRule& rule, const Cpu& cpu, uint64_t object);
  bool wants_object(const TraceTable& table, uint64_t size, CpuPart& part) const;
  bool put_event(ProbeEvent::Kind kind, const char* name, const Cpu& cpu, const uint64_t* values,
                 size_t count);

  const uint32_t number_;

  // Read by hits; all but the events is fixed before they come.
  CpuPart* parts_ = nullptr;
  const ProbeRule* rules_ = nullptr;
  bool selects_ = false;       // not all hits are wanted
  bool kernel_stacks_ = true;  // these are told apart
  bool user_stacks_ = false;
  bool stacks_ = true;  // any of them
  bool processes_ = false;
  uint32_t depth_ = kProbeMaxDepth;
  uint32_t pid_ = 0;
  uint32_t cpu_ = ProbeOptions::kAnyCpu;
  TraceTable* objects_ = nullptr;  // nullptr: nothing allocates
  TraceTable* memory_ = nullptr;   // of mmap; nullptr: it is not watched
  ProbePairs* pairs_ = nullptr;
  std::atomic<ProbeEvents*> events_{nullptr};
  std::atomic<bool> object_events_{false};  // somebody reads them

  Mutex mutex_{LockRank::kProbeSession};
  std::atomic<TracePhase> phase_{TracePhase::kOff};  // changed under mutex_
  ProbeOptions options_ GUARDED_BY(mutex_);
  ProbeFunctions functions_ GUARDED_BY(mutex_);
  Mutex reading_{LockRank::kDeviceMutex};  // of events
  bool user_ GUARDED_BY(mutex_) = false;   // of the shared tables
};
