// A session of #probe, as its user sees it: commands, and readable results.
//
// States, as those of a trace: off (being configured) → running → stopped → running …. While off,
// commands collect functions (probe_functions.h) and options. The first start turns them into rules
// and probes, prepares the recorder (probe_recorder.h), which is the consumer of all its probes,
// and arms these. Functions and options are fixed from then on.
//
// From the first start, or the first open of events, to the end, session and recorder use the
// tables of stacks and contexts that all traces share.
//
// Locks, outermost first: mutex_, around arming and around the users of the shared tables; then the
// reading lock of events. Hits take neither.
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>

#include "core/ref.h"
#include "core/sleep.h"
#include "lib/result.h"
#include "probe/probe_counts.h"
#include "probe/probe_events.h"
#include "probe/probe_functions.h"
#include "probe/probe_options.h"
#include "probe/probe_recorder.h"
#include "store/shared_tables.h"
#include "trace/trace_options.h"

class Chan;
class TraceBinaryDump;

// Opens programs by path, for arming, which this layer cannot do itself.
class ProbePrograms {
 public:
  virtual Result<HeldRef<Chan>> open(std::string_view path) = 0;
  virtual void close(HeldRef<Chan> program) = 0;

 protected:
  ~ProbePrograms() = default;
};

// All calls may sleep.
class ProbeSession {
 public:
  // ENOMEM.
  static Result<ProbeSession*> create(uint32_t number);
  // Removes the probes first. Nobody may use the session.
  static void destroy(ProbeSession* session);

  uint32_t number() const { return number_; }
  // Executes several commands, one a line; on failure nothing has changed and the error string is
  // set. EINVAL, ENOENT, EBUSY, ENOMEM and errors of opening a program.
  Result<void> command(std::string_view text, ProbePrograms& programs);

  // --- For reading.

  struct State {
    TracePhase phase;
    uint32_t functions;
    uint64_t kept_out;
    uint64_t abandoned;  // abandoned calls of allocation functions: probe_pairs.h
    ProbeTallies tallies;
  };
  // Copies all counts, summed up and sorted, with the session's state. In a StoreReading, unless
  // there are no counts yet. ENOMEM.
  Result<State> copy_counts(ProbeCounts& counts);
  ProbeApart tells_apart();
  // From now on allocations and frees are events too. ENOMEM.
  Result<void> open_events();
  // Gets the next event, as ProbeEvents::take(); false if there is none.
  bool take_event(ProbeEvent* event, bool* any, uint64_t* lost);
  // True if a reader of events need not wait: there is one, or none will come until the next start.
  bool events_ready();
  bool events_ended();
  // Makes a dump of outstanding objects, which must be destroyed before the session ends. Waits
  // until the session's previous dump is destroyed: EINTR. ENOMEM.
  Result<TraceBinaryDump*> open_outstanding();

 private:
  Result<void> open_snapshots(TraceBinaryDump& dump);
  struct Undo {
    ProbeOptions options;
    ProbeFunctions::Mark functions;
  };
  // Keeps the recorder's stacks and contexts valid, from hold() on.
  class SharedTables final : public StoreHolder {
   public:
    explicit SharedTables(ProbeRecorder& recorder) : recorder_(recorder) {}

    // ENOMEM, with an error string. No effect if they are held.
    Result<void> hold();
    // Called before the recorder is destroyed.
    void drop();
    void mark(StoreMark& mark) override { recorder_.mark(mark); }
    void forget_recent() override { recorder_.forget_recent(); }

   private:
    ProbeRecorder& recorder_;
  };

  explicit ProbeSession(uint32_t number) : number_(number) {}
  ~ProbeSession();

  Result<void> check(std::string_view text);
  Result<void> apply(const ProbeCommand& command, ProbePrograms& programs) REQUIRES(mutex_);
  Result<void> set_option(const ProbeCommand& command) REQUIRES(mutex_);
  Result<void> start(ProbePrograms& programs) REQUIRES(mutex_);
  Result<void> prepare() REQUIRES(mutex_);
  Result<void> arm(ProbePrograms& programs) REQUIRES(mutex_);
  void disarm() REQUIRES(mutex_);

  const uint32_t number_;

  Mutex mutex_{LockRank::kProbeSession};
  std::atomic<TracePhase> phase_{TracePhase::kOff};  // changed under mutex_
  ProbeOptions options_ GUARDED_BY(mutex_);
  ProbeFunctions functions_ GUARDED_BY(mutex_);

  // Its control functions are called under mutex_; hits and readers of events take no lock of the
  // session.
  ProbeRecorder recorder_;
  SharedTables tables_ GUARDED_BY(mutex_){recorder_};
};
