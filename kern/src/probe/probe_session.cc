#include "probe/probe_session.h"

#include <algorithm>

#include "arch/x86_64/smp.h"
#include "arch/x86_64/time.h"
#include "core/errstr.h"
#include "core/symbols.h"
#include "lib/format.h"
#include "store/trace_memory.h"

Result<ProbeSession*> ProbeSession::create(uint32_t number) {
  void* memory = trace_copy_alloc(sizeof(ProbeSession));
  if (!memory) return Errno::ENOMEM;
  auto* session = new (memory) ProbeSession(number);
  void* parts = trace_copy_alloc(cpu_count() * sizeof(CpuPart));
  if (!parts) {
    destroy(session);
    return Errno::ENOMEM;
  }
  session->parts_ = static_cast<CpuPart*>(parts);
  for (unsigned i = 0; i < cpu_count(); i++) {
    new (&session->parts_[i]) CpuPart;
    session->parts_[i].sampler.seed(tsc() + i);
  }
  return session;
}

void ProbeSession::destroy(ProbeSession* session) {
  session->~ProbeSession();
  trace_copy_free(session, sizeof(ProbeSession));
}

ProbeSession::~ProbeSession() {
  {
    const MutexGuard guard(mutex_);
    if (phase_ == TracePhase::kRunning) disarm();
  }
  if (parts_) {
    forget_counts();
    trace_copy_free(parts_, cpu_count() * sizeof(CpuPart));
  }
  for (TraceTable* table : {objects_, memory_}) {
    if (table) TraceTable::destroy(table);
  }
  if (pairs_) trace_copy_free(pairs_, sizeof(ProbePairs));
  if (ProbeEvents* events = events_.load()) ProbeEvents::destroy(events);
  const MutexGuard guard(mutex_);
  if (user_) trace_users_drop();
}

// --- Commands.

Result<void> ProbeSession::check(std::string_view text) {
  ProbeCommand command;
  bool any = false;
  while (TRY(probe_next_command(&text, &command))) any = true;
  return any ? Result<void>()
             : fail(Errno::EINVAL, "nothing to do: expected a command, one a line");
}

Result<void> ProbeSession::command(std::string_view text, ProbePrograms& programs) {
  TRY(check(text));
  const MutexGuard guard(mutex_);
  const Undo undo = {options_, functions_.mark()};
  ProbeCommand command;
  Result<void> done;
  while (done) {
    Result<bool> more = probe_next_command(&text, &command);
    if (!more || !*more) break;
    done = apply(command, programs);
  }
  functions_.forget_index();
  if (!done && phase_ == TracePhase::kOff) {
    options_ = undo.options;
    functions_.restore(undo.functions);
  }
  return done;
}

Result<void> ProbeSession::apply(const ProbeCommand& command, ProbePrograms& programs) {
  switch (command.word) {
    case ProbeWord::kStart:
      return start(programs);
    case ProbeWord::kStop:
      if (phase_ != TracePhase::kRunning) return {};
      disarm();
      phase_ = TracePhase::kStopped;
      return {};
    case ProbeWord::kClear:
      clear();
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
      options_.processes = true;
      return {};
    case ProbeWord::kPid:
      options_.trace.pid = static_cast<uint32_t>(command.number);
      return {};
    case ProbeWord::kCpu:
      if (command.number >= cpu_count()) {
        return fail(Errno::EINVAL, "cpu %lu: there are %u, from 0", command.number, cpu_count());
      }
      options_.cpu = static_cast<uint32_t>(command.number);
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
      return functions_.add(command);
  }
}

Result<void> ProbeSession::start(ProbePrograms& programs) {
  if (phase_ == TracePhase::kRunning) return {};
  if (phase_ == TracePhase::kOff) TRY(prepare());
  TRY(arm(programs));
  phase_ = TracePhase::kRunning;
  return {};
}

// What the first start needs. It may fail and be done again.
Result<void> ProbeSession::prepare() {
  if (functions_.empty() && !options_.watch_memory) {
    return fail(
        Errno::EINVAL,
        "nothing to start: count FUNCTION, event FUNCTION, alloc or watch memory come first");
  }
  if (options_.trace.min_size > options_.trace.max_size) {
    return fail(Errno::EINVAL, "min %u max %u: nothing has such a size; min is at most max",
                options_.trace.min_size, options_.trace.max_size);
  }
  TRY(functions_.build());
  TRY(use_tables());
  TRY(make_tables());
  if (functions_.has(kProbeCallEvent | kProbeReturnEvent)) TRY(make_events());
  rules_ = functions_.rules();
  kernel_stacks_ = has_kernel(options_.stacks);
  user_stacks_ = has_user(options_.stacks);
  stacks_ = options_.stacks != ProbeStacks::kNone;
  processes_ = options_.processes;
  depth_ = options_.trace.depth;
  pid_ = options_.trace.pid;
  cpu_ = options_.cpu;
  selects_ = options_.selects();
  if (options_.plain()) functions_.count_plainly();
  return {};
}

// From now on numbers of stacks and contexts have a meaning, and there are pages for hits.
Result<void> ProbeSession::use_tables() {
  if (user_) return {};
  if (!trace_users_add()) {
    return fail(Errno::ENOMEM,
                "%lu of %lu bytes of trace memory in use: echo limit N > #mem/kmemtrace/ctl",
                trace_memory_used(), trace_memory_limit());
  }
  user_ = true;
  return {};
}

Result<void> ProbeSession::make_tables() {
  const auto make = [&](TraceTable** table) REQUIRES(mutex_) -> Result<void> {
    if (!*table) *table = TraceTable::create();
    if (!*table) return fail(Errno::ENOMEM, "no trace memory for what is outstanding");
    (*table)->set_options(options_.trace);
    return {};
  };
  if (options_.watch_memory) TRY(make(&memory_));
  if (!functions_.has(kProbeAllocates | kProbeFrees)) return {};
  TRY(make(&objects_));
  if (pairs_) return {};
  void* memory = trace_copy_alloc(sizeof(ProbePairs));
  if (!memory) return Errno::ENOMEM;
  pairs_ = new (memory) ProbePairs;
  return {};
}

// Before the first start it is not known yet whether calls are events too: then it is made anew,
// and nothing is in it.
Result<void> ProbeSession::make_events() {
  const uint32_t values = functions_.has(kProbeCallEvent) ? ProbeEvent::kMaxValues : 2;
  ProbeEvents* const old = events_.load(std::memory_order_relaxed);
  if (old && old->values() >= values) return {};
  constexpr uint64_t kPartOfLimit = 8;
  const uint64_t pages = std::max<uint64_t>(trace_memory_limit() / kPageSize / kPartOfLimit, 1);
  ProbeEvents* const events = ProbeEvents::create(pages, values);
  if (!events) return fail(Errno::ENOMEM, "no trace memory for events");
  {
    const MutexGuard reading(reading_);
    events_.store(events, std::memory_order_release);
  }
  if (old) ProbeEvents::destroy(old);
  return {};
}

Result<void> ProbeSession::arm(ProbePrograms& programs) {
  const auto arm_programs = [&]() REQUIRES(mutex_) -> Result<void> {
    for (const ProbeFunctions::Program& program : functions_.programs()) {
      Chan* const file = TRY(programs.open(functions_.path_of(program)));
      const Result<void> armed = user_probes_arm(*this, *file, functions_.probes_of(program));
      programs.close(file);
      if (!armed) return armed;
    }
    return {};
  };
  if (pairs_) pairs_->clear();
  Result<void> armed = arm_programs();
  if (armed && !functions_.kernel_probes().empty())
    armed = kernel_probes_arm(*this, functions_.kernel_probes());
  if (armed && options_.watch_memory) user_probes_watch_memory(*this);
  if (!armed) user_probes_disarm(*this);
  return armed;
}

void ProbeSession::disarm() {
  if (!functions_.kernel_probes().empty()) kernel_probes_disarm(*this);
  user_probes_disarm(*this);
}

// --- What was found.

void ProbeSession::clear() {
  forget_counts();
  kept_out.store(0, std::memory_order_relaxed);
  for (TraceTable* table : {objects_, memory_}) {
    if (table) table->clear();
  }
  ProbeEvents* const events = events_.load(std::memory_order_relaxed);
  if (!events) return;
  const MutexGuard reading(reading_);
  events->clear();
}

void ProbeSession::CpuPart::take_away() {
  counts.take_away(taken);
  for (std::atomic<uint64_t>* tally :
       {&filtered, &lost, &done, &stacks_lost, &contexts_lost, &truncated}) {
    tally->store(0, std::memory_order_relaxed);
  }
}

// No hit lands in between: interrupts are off, on the CPU whose part it is.
void ProbeSession::forget_counts() {
  on_each_cpu([](void* parts) { static_cast<CpuPart*>(parts)[cpu_id()].take_away(); }, parts_);
  for (unsigned i = 0; i < cpu_count(); i++) StackCounts::Part::release(parts_[i].taken);
}

Result<ProbeSession::State> ProbeSession::copy_counts(ProbeCounts& counts) {
  const MutexGuard guard(mutex_);
  State state = {.phase = phase_,
                 .functions = phase_ == TracePhase::kOff ? 0 : functions_.rule_count(),
                 .kept_out = kept_out.load(std::memory_order_relaxed),
                 .tallies = {}};
  // Hits that must not allocate use what others have fetched.
  if (user_) trace_memory_prepare();
  Tallies& sum = state.tallies;
  for (unsigned i = 0; i < cpu_count(); i++) {
    const CpuPart& part = parts_[i];
    TRY(counts.add(part.counts));
    sum.counted += part.done.load(std::memory_order_relaxed);
    sum.filtered += part.filtered.load(std::memory_order_relaxed);
    sum.lost += part.lost.load(std::memory_order_relaxed);
    sum.stacks_lost += part.stacks_lost.load(std::memory_order_relaxed);
    sum.contexts_lost += part.contexts_lost.load(std::memory_order_relaxed);
    sum.truncated += part.truncated.load(std::memory_order_relaxed);
  }
  counts.finish();
  sum.counted += counts.total();
  return state;
}

bool ProbeSession::tells_processes_apart() {
  const MutexGuard guard(mutex_);
  return options_.processes;
}

Result<void> ProbeSession::open_events() {
  const MutexGuard guard(mutex_);
  TRY(use_tables());
  TRY(make_events());
  object_events_.store(true, std::memory_order_release);
  return {};
}

bool ProbeSession::take_event(ProbeEvent* event, bool* any, uint64_t* lost) {
  trace_memory_prepare();
  const MutexGuard reading(reading_);
  return events_.load(std::memory_order_acquire)->take(event, any, lost);
}

bool ProbeSession::events_ready() {
  if (phase_.load(std::memory_order_acquire) == TracePhase::kStopped) return true;
  const MutexGuard reading(reading_);
  return !events_.load(std::memory_order_acquire)->empty();
}

bool ProbeSession::events_ended() {
  return phase_.load(std::memory_order_acquire) == TracePhase::kStopped;
}

Result<TraceBinary*> ProbeSession::copy_outstanding() {
  void* memory = trace_copy_alloc(sizeof(TraceBinary));
  if (!memory) return Errno::ENOMEM;
  auto* dump = new (memory) TraceBinary(trace_stacks, trace_contexts);
  const auto copy = [&]() -> Result<void> {
    const MutexGuard guard(mutex_);
    TraceHeader header = {};
    header.state = {.phase = phase_, .options = options_.trace, .mark = 0};
    for (TraceTable* table : {objects_, memory_}) {
      if (!table) continue;
      format(header.name, sizeof(header.name), table == memory_ ? "probe/%u/mmap" : "probe/%u",
             number_);
      TRY(dump->add(header, ABI_TRACEDUMP_PROBE, 0, *table, coarse_milliseconds));
    }
    return dump->finish({.time = monotonic_now().value,
                         .memory_limit = trace_memory_limit(),
                         .memory_used = trace_memory_used(),
                         .build_id = kernel_build_id()});
  };
  const Result<void> copied = copy();
  if (copied) return dump;
  delete_outstanding(dump);
  return copied.error();
}

void ProbeSession::delete_outstanding(TraceBinary* dump) {
  dump->~TraceBinary();
  trace_copy_free(dump, sizeof(TraceBinary));
}
