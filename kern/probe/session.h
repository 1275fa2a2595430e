// A session of #probe, as its user sees it: commands, and readable results.
//
// The states are those of a trace: off (being configured) → running → stopped → running …. While
// the session is off, commands collect functions (probe/functions_impl.h) and options. The first
// start makes rules and probes from the functions, prepares the recorder (probe/recorder_impl.h),
// and arms the probes. The recorder is the consumer of all these probes. After the first start,
// functions and options cannot be changed.
//
// Session and recorder use the tables of stacks and contexts that all traces share. This use begins
// with the first start or the first open of events, and ends when the session is destroyed.
//
// Lock order: mutex_, then ProbeEventStream::reading_. mutex_ is held while probes are armed and
// while the session registers as a user of the shared tables. Hits take neither lock.
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>

#include "core/ref.h"
#include "core/sleep.h"
#include "intern/shared_tables.h"
#include "lib/result.h"
#include "probe/counts_impl.h"
#include "probe/events_impl.h"
#include "probe/functions_impl.h"
#include "probe/options_impl.h"
#include "probe/recorder_impl.h"
#include "trace/record/options.h"

class Chan;
class TraceBinaryDump;

// The process that gives a session a command. It opens the programs, for arming.
class ProbeCaller {
 public:
  virtual Result<HeldRef<Chan>> open(std::string_view path) = 0;
  virtual void close(HeldRef<Chan> program) = 0;
  // True if the process has been killed.
  virtual bool is_ending() { return false; }

 protected:
  ~ProbeCaller() = default;
};

// A session of #probe. All calls may sleep.
class ProbeSession {
 public:
  // Makes a session without functions, with the number 0. ENOMEM. The caller holds no lock.
  static Result<ProbeSession*> create();
  // Removes the session's probes and frees the session. Nobody else may use the session.
  static void destroy(ProbeSession* session);

  uint32_t number() const { return number_; }
  // Called before anybody else knows the session.
  void set_number(uint32_t number) { number_ = number; }
  // Executes several commands, one a line. On failure the error string is set. If a line cannot be
  // parsed, no command is executed. If a command fails before the first start of the session, the
  // functions and options of the whole text are undone. If a command fails after the first start,
  // the commands before it stay executed. EINVAL, ENOENT, EBUSY, ENOSPC, ENOMEM, EINTR if the
  // caller is ending, and errors of opening a program.
  Result<void> command(std::string_view text, ProbeCaller& caller);

  // --- For reading.

  struct State {
    TracePhase phase;
    uint32_t functions;
    uint64_t kept_out;
    uint64_t abandoned;  // ProbeObjects::abandoned()
    ProbeTallies tallies;
  };
  // Copies all counts, summed up and sorted, with the session's state. If there may be counts, the
  // caller is in a NumbersReading. ENOMEM.
  Result<State> copy_counts(ProbeCounts& counts);
  ProbeApart tells_apart();
  // From this call on, each allocation and each free is an event, too. ENOMEM.
  Result<void> open_events();
  // Gets the next event; the results are those of ProbeEvents::take().
  bool take_event(ProbeEvent* event, bool* any, uint64_t* lost);
  // True if a reader of events need not wait: there is an event, or the session is stopped. A
  // stopped session gets no events until the next start.
  bool events_ready();
  bool events_ended();
  // Makes a dump of outstanding objects. The dump must be destroyed before the session. Waits until
  // the session's previous dump is destroyed. EINTR, ENOMEM.
  Result<TraceBinaryDump*> open_outstanding();

 private:
  Result<void> open_snapshots(TraceBinaryDump& dump);
  struct Undo {
    ProbeOptions options;
    ProbeFunctions::Checkpoint functions;
  };
  // The session as a user of the shared tables: from hold() to drop(), the recorder's stacks and
  // contexts stay valid.
  class SharedTables final : public TableUser {
   public:
    explicit SharedTables(ProbeRecorder& recorder) : recorder_(recorder) {}

    // Registers the session as a user of the tables, if it is not registered yet. ENOMEM, with an
    // error string.
    Result<void> hold();
    // Ends the use of the tables, if the session is registered. Called before the recorder is
    // destroyed.
    void drop();
    void retain(Retained& retained) override { recorder_.retain(retained); }
    void forget_recent() override { recorder_.forget_recent(); }

   private:
    ProbeRecorder& recorder_;
  };

  ProbeSession() = default;
  ~ProbeSession();

  Result<void> check(std::string_view text);
  Result<void> apply(const ProbeCommand& command, ProbeCaller& caller) REQUIRES(mutex_);
  Result<void> set_option(const ProbeCommand& command) REQUIRES(mutex_);
  Result<void> start(ProbeCaller& caller) REQUIRES(mutex_);
  Result<void> prepare() REQUIRES(mutex_);
  Result<void> arm(ProbeCaller& caller) REQUIRES(mutex_);
  void disarm() REQUIRES(mutex_);

  uint32_t number_ = 0;

  Mutex mutex_{LockRank::kProbeSession};
  std::atomic<TracePhase> phase_{TracePhase::kOff};  // changed under mutex_
  ProbeOptions options_ GUARDED_BY(mutex_);
  ProbeFunctions functions_ GUARDED_BY(mutex_);

  // The recorder's control functions are called under mutex_. Hits and readers of events do not
  // take mutex_.
  ProbeRecorder recorder_;
  SharedTables tables_ GUARDED_BY(mutex_){recorder_};
};
