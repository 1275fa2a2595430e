#include "probe/session.h"

#include <algorithm>
#include <new>

#include "arch/x86_64/time.h"
#include "core/cpu.h"
#include "core/errstr.h"
#include "core/planted.h"
#include "core/symbols.h"
#include "intern/shared_tables.h"
#include "intern/trace_memory.h"
#include "trace/dump/open_binary.h"

Result<ProbeSession*> ProbeSession::create() {
  void* memory = trace_copy_alloc(sizeof(ProbeSession));
  if (!memory) return Errno::ENOMEM;
  auto* session = new (memory) ProbeSession;
  if (session->recorder_.init()) return session;
  destroy(session);
  return Errno::ENOMEM;
}

void ProbeSession::destroy(ProbeSession* session) {
  session->~ProbeSession();
  if (!planted(Planted::kProbeSession)) trace_copy_free(session, sizeof(ProbeSession));
}

ProbeSession::~ProbeSession() {
  const MutexGuard guard(mutex_);
  if (phase_ == TracePhase::kRunning) disarm();
  tables_.drop();
}

Result<void> ProbeSession::SharedTables::hold() {
  if (is_user()) return {};
  if (!trace_users_add(*this)) {
    return fail(Errno::ENOMEM,
                "%lu of %lu bytes of trace memory in use: echo limit N > #mem/kmemtrace/ctl",
                trace_memory_used(), trace_memory_limit());
  }
  return {};
}

void ProbeSession::SharedTables::drop() {
  if (is_user()) trace_users_drop(*this);
}

// --- Commands.

Result<void> ProbeSession::check(std::string_view text) {
  ProbeCommand command;
  bool any = false;
  while (TRY(probe_next_command(&text, &command))) any = true;
  return any ? Result<void>()
             : fail(Errno::EINVAL, "nothing to do: expected a command, one a line");
}

Result<void> ProbeSession::command(std::string_view text, ProbeCaller& caller) {
  TRY(check(text));
  const MutexGuard guard(mutex_);
  const Undo undo = {options_, functions_.checkpoint()};
  ProbeCommand command;
  Result<void> done;
  while (done) {
    Result<bool> more = probe_next_command(&text, &command);
    if (!more || !*more) break;
    done = apply(command, caller);
  }
  functions_.forget_index();
  if (!done && phase_ == TracePhase::kOff) {
    options_ = undo.options;
    functions_.restore(undo.functions);
  }
  return done;
}

Result<void> ProbeSession::apply(const ProbeCommand& command, ProbeCaller& caller) {
  switch (command.word) {
    case ProbeWord::kStart:
      return start(caller);
    case ProbeWord::kStop:
      if (phase_ != TracePhase::kRunning) return {};
      disarm();
      phase_ = TracePhase::kStopped;
      return {};
    case ProbeWord::kClear:
      recorder_.clear();
      return {};
    default:
      break;
  }
  if (phase_ != TracePhase::kOff) {
    return fail(
        Errno::EBUSY,
        "functions and options come before the first start: open #probe/clone for another session");
  }
  switch (command.word) {
    case ProbeWord::kCount:
    case ProbeWord::kEvent:
    case ProbeWord::kEventReturn:
    case ProbeWord::kAlloc:
    case ProbeWord::kFree:
      return functions_.add(command, caller);
    default:
      return set_option(command);
  }
}

Result<void> ProbeSession::set_option(const ProbeCommand& command) {
  switch (command.word) {
    case ProbeWord::kWatchMemory:
      options_.watch_memory = true;
      return {};
    case ProbeWord::kStacks:
      options_.stacks = command.stacks;
      return {};
    case ProbeWord::kDepth:
      options_.trace.depth = static_cast<uint32_t>(command.number);
      return {};
    case ProbeWord::kProcesses:
      options_.apart = std::max(options_.apart, ProbeApart::kProcesses);
      return {};
    case ProbeWord::kThreads:
      options_.apart = ProbeApart::kThreads;
      return {};
    case ProbeWord::kPid:
      options_.trace.pid = static_cast<uint32_t>(command.number);
      return {};
    case ProbeWord::kCpu:
      if (command.number >= cpu_count()) {
        return fail(Errno::EINVAL, "cpu %lu: there are %u CPUs, numbered from 0", command.number,
                    cpu_count());
      }
      options_.cpu = CpuId{static_cast<uint32_t>(command.number)};
      return {};
    case ProbeWord::kMin:
      options_.trace.min_size = static_cast<uint32_t>(command.number);
      return {};
    case ProbeWord::kMax:
      options_.trace.max_size = static_cast<uint32_t>(command.number);
      return {};
    case ProbeWord::kSample:
      options_.trace.sample = command.number;
      return {};
    default:
      return {};
  }
}

Result<void> ProbeSession::start(ProbeCaller& caller) {
  if (phase_ == TracePhase::kRunning) return {};
  if (phase_ == TracePhase::kOff) TRY(prepare());
  TRY(arm(caller));
  phase_ = TracePhase::kRunning;
  return {};
}

// Prepares the first start. May be repeated after a failure.
Result<void> ProbeSession::prepare() {
  if (functions_.empty() && !options_.watch_memory) {
    return fail(
        Errno::EINVAL,
        "nothing to start: count FUNCTION, event FUNCTION, alloc or watch memory come first");
  }
  if (options_.trace.min_size > options_.trace.max_size) {
    return fail(Errno::EINVAL, "min %u max %u: no size matches, because min is greater than max",
                options_.trace.min_size, options_.trace.max_size);
  }
  TRY(functions_.build());
  TRY(tables_.hold());
  return recorder_.prepare(options_, functions_.rules(), functions_.actions());
}

// Arms all probes or none. Hits are not recorded until the last probe is armed.
Result<void> ProbeSession::arm(ProbeCaller& caller) {
  const auto arm_programs = [&]() REQUIRES(mutex_) -> Result<void> {
    for (const ProbeFunctions::Program& program : functions_.programs()) {
      if (caller.is_ending()) return Errno::EINTR;
      const HeldRef<Chan> file = TRY(caller.open(functions_.path_of(program)));
      const Result<void> armed =
          user_probes_arm(recorder_, *file.object, functions_.probes_of(program));
      caller.close(file);
      if (!armed) return armed;
    }
    return {};
  };
  const uint64_t kept_out = recorder_.kept_out.load(std::memory_order_relaxed);
  Result<void> armed = arm_programs();
  if (armed && !functions_.kernel_probes().empty())
    armed = kernel_probes_arm(recorder_, functions_.kernel_probes());
  if (!armed) {
    user_probes_disarm(recorder_);
    recorder_.kept_out.store(kept_out, std::memory_order_relaxed);
    return armed;
  }
  if (options_.watch_memory) user_probes_watch_memory(recorder_);
  recorder_.set_recording(true);
  if (options_.plain()) functions_.count_plainly(true);
  return {};
}

void ProbeSession::disarm() {
  if (!functions_.kernel_probes().empty()) kernel_probes_disarm(recorder_);
  user_probes_disarm(recorder_);
  functions_.count_plainly(false);
  recorder_.set_recording(false);
  recorder_.objects().forget_calls();
}

// --- For reading.

Result<ProbeSession::State> ProbeSession::copy_counts(ProbeCounts& counts) {
  const MutexGuard guard(mutex_);
  // Fetches pages of trace memory, because hits need these pages but must not allocate.
  if (tables_.is_user()) trace_memory_prepare();
  return State{.phase = phase_,
               .functions = phase_ == TracePhase::kOff ? 0 : functions_.rule_count(),
               .kept_out = recorder_.kept_out.load(std::memory_order_relaxed),
               .abandoned = recorder_.objects().abandoned(),
               .tallies = TRY(recorder_.copy_counts(counts))};
}

ProbeApart ProbeSession::tells_apart() {
  const MutexGuard guard(mutex_);
  return options_.apart;
}

Result<void> ProbeSession::open_events() {
  const MutexGuard guard(mutex_);
  TRY(tables_.hold());
  return recorder_.events().open();
}

bool ProbeSession::take_event(ProbeEvent* event, bool* any, uint64_t* lost) {
  return recorder_.events().take(event, any, lost);
}

bool ProbeSession::events_ready() {
  return events_ended() || !recorder_.events().empty();
}

bool ProbeSession::events_ended() {
  return phase_.load(std::memory_order_acquire) == TracePhase::kStopped;
}

// Before the first start of the session, another command may replace the tables of objects between
// choose_for() and open(). In this case open() fails with ENOENT, and this function tries again.
Result<void> ProbeSession::open_snapshots(TraceBinaryDump& dump) {
  for (;;) {
    {
      const MutexGuard guard(mutex_);
      TRY(recorder_.objects().choose_for(dump.binary, number_, phase_));
    }
    const Result<void> opened = dump.binary.open();
    if (opened || opened.error() != Errno::ENOENT) return opened;
  }
}

Result<TraceBinaryDump*> ProbeSession::open_outstanding() {
  TraceBinaryDump* const dump = TRY(TraceBinaryDump::create());
  const Result<void> opened = open_snapshots(*dump);
  if (!opened) {
    TraceBinaryDump::destroy(dump);
    return opened.error();
  }
  dump->binary.finish({.time = monotonic_now().value,
                       .memory_limit = trace_memory_limit(),
                       .memory_used = trace_memory_used(),
                       .build_id = kernel_build_id()});
  return dump;
}
