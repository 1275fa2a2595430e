// Executes start, stop, reset and mark for one source (a cache, an arena or a class of references),
// for all sources, and for caches and arenas that are made later.
//
// A command for all sources holds the control lock while it lists the sources and until it is done.
// A new cache or arena enters its list under the same lock (slab_trace_entering). So each source is
// started either by the command or by a request for later sources (later_impl.h), and nobody can
// allocate from a new cache before its trace has begun.
#include "trace/control/control.h"

#include <span>

#include "arch/x86_64/smp.h"
#include "arch/x86_64/time.h"
#include "core/boot.h"
#include "core/cpu.h"
#include "core/errstr.h"
#include "core/log.h"
#include "core/planted.h"
#include "core/probe_guard.h"
#include "intern/current_context.h"
#include "intern/page_buffer.h"
#include "intern/shared_tables.h"
#include "intern/sweeper.h"
#include "intern/trace_memory.h"
#include "lib/format.h"
#include "lib/quoted.h"
#include "slab_os.h"
#include "slab_trace.h"
#include "trace/control/settle_impl.h"
#include "trace/control/started.h"

constinit Mutex trace_control{LockRank::kTraceControl};
uint32_t trace_commands_done = 0;
constinit TraceLater trace_later;

namespace {

using Commands = std::span<const TraceCommand>;

struct Target {
  TraceSource source;
  TraceTable* made;  // table that the current start has made; nullptr if the source had a table
  bool acts;         // the current command affects the source
};

// The sources of a command, with a reference to each.
class Targets {
 public:
  Targets() = default;
  Targets(const Targets&) = delete;
  Targets& operator=(const Targets&) = delete;
  ~Targets() { release(); }

  Result<void> one(TraceSource source) {
    TRY(targets_.reserve(1));
    add(source);
    return {};
  }
  // Adds all sources that can be traced.
  Result<void> all() {
    for (;;) {
      bool complete = true;
      for (TraceSource source = TraceSource::next({}); source; source = TraceSource::next(source)) {
        if (!source.can_be_traced()) continue;
        if (count_ < targets_.capacity()) {
          add(source);
        } else {
          complete = false;
        }
      }
      if (complete) return {};
      release();
      TRY(targets_.reserve(2 * targets_.capacity() + 1));
    }
  }

  std::span<Target> span() { return {targets_.data(), count_}; }

 private:
  void add(TraceSource source) {
    source.hold();
    targets_[count_++] = {source, nullptr, false};
  }
  void release() {
    for (Target& target : span()) target.source.release();
    count_ = 0;
  }

  PageBuffer<Target> targets_;
  size_t count_ = 0;
};

// The arguments of a round. A round interrupts each CPU, to change its copy of the flags of all
// targets with `acts`. After the round, no hook that saw the old flags is under way.
struct Round {
  std::span<Target> targets;
  int set;
  int clear;
};

void change_flags(std::span<Target> targets, int set, int clear) {
  for (const Target& target : targets) {
    if (target.acts) target.source.change_flags(set, clear);
  }
  Round round{targets, set, clear};
  on_each_cpu(
      [](void* argument) {
        const Round& round = *static_cast<Round*>(argument);
        for (const Target& target : round.targets) {
          if (target.acts) target.source.change_cpu_flags(round.set, round.clear);
        }
      },
      &round);
}

// For each target, sets `acts` to true if the target's phase meets the condition, otherwise to
// false. Returns false if no target acts.
template <typename Condition>
bool select(std::span<Target> targets, Condition condition) REQUIRES(trace_control) {
  bool any = false;
  for (Target& target : targets) {
    target.acts = condition(target, trace_state_of(target.source).phase);
    any |= target.acts;
  }
  return any;
}

void discard_tables(std::span<Target> targets) REQUIRES(trace_control) {
  for (Target& target : targets) {
    if (!target.made) continue;
    TraceTable::destroy(target.made);
    target.made = nullptr;
  }
}

Result<void> make_tables(std::span<Target> targets) REQUIRES(trace_control) {
  for (Target& target : targets) {
    target.made = nullptr;
    if (!target.acts || trace_table_of(target.source)) continue;
    TablesOpen use;
    if (use.begin()) target.made = TraceTable::create(slab_os_cpu_count());
    if (target.made) {
      const Result<void> added = trace_users_add(target.made->names());
      ASSERT(added.ok());  // `use` has made the shared tables ready
    } else {
      discard_tables(targets);
      return fail(Errno::ENOMEM,
                  "no memory for a trace of %.40s: %lu of %lu bytes of trace memory in use",
                  target.source.name(), trace_memory_used(), trace_memory_limit());
    }
  }
  return {};
}

Result<void> make_free_counts(std::span<Target> targets) REQUIRES(trace_control) {
  for (Target& target : targets) {
    if (!target.acts) continue;
    TraceTable* const table = target.made ? target.made : trace_table_of(target.source);
    if (table->make_free_counts()) continue;
    const char* const name = target.source.name();
    discard_tables(targets);
    return fail(Errno::ENOMEM, "no memory to count the frees of %.40s", name);
  }
  return {};
}

// Adds the context of the task that starts a trace to the table of contexts. Often this task is
// also the first that allocates. Then the hook of this allocation needs to store only a stack.
void know_starter() {
  const ProbesOff no_hit;
  trace_memory_prepare();
  trace_find_base();
}

// First half of a start, for the targets with `acts`: creates missing tables and sets the options.
// The caller then changes the flags and calls note_running().
Result<void> prepare_start(std::span<Target> targets, const TraceOptions& options)
    REQUIRES(trace_control) {
  TRY(make_tables(targets));
  if (options.frees) TRY(make_free_counts(targets));
  know_starter();
  for (Target& target : targets) {
    if (target.made) {
      trace_started_add(target.made, target.source);
      __atomic_store_n(trace_slot_of(target.source), target.made, __ATOMIC_RELEASE);
    }
    if (!target.acts) continue;
    TraceTable* const table = trace_table_of(target.source);
    table->set_options(options);
    if (options.sample != 0) table->seed_samplers(tsc());
  }
  return {};
}

void note_running(std::span<Target> targets) REQUIRES(trace_control) {
  for (Target& target : targets) {
    if (target.acts) trace_table_of(target.source)->set_running(true);
  }
}

// True if a start command affects the source. When a command is for all sources, `start` affects
// caches and arenas, and `refs` affects references.
bool is_meant(TraceSource source, const TraceCommand& command, CommandScope scope) {
  return scope == CommandScope::kOneCache ||
         (source.references() != nullptr) == (command.word == TraceWord::kRefs);
}

Result<void> start(std::span<Target> targets, const TraceCommand& command, CommandScope scope)
    REQUIRES(trace_control) {
  if (!select(targets, [&](const Target& target, TracePhase phase) {
        return phase != TracePhase::kRunning && is_meant(target.source, command, scope);
      }))
    return {};
  TRY(prepare_start(targets, command.options));
  change_flags(targets, KMC_EVER_TRACED, 0);
  change_flags(targets, KMC_TRACED, 0);
  note_running(targets);
  return {};
}

// Starts the trace of a source that only the caller can use. So the function need not interrupt any
// CPU.
Result<void> start_unused(TraceSource source, const TraceOptions& options) REQUIRES(trace_control) {
  Target target{source, nullptr, true};
  TRY(prepare_start({&target, 1}, options));
  source.change_flags(KMC_EVER_TRACED | KMC_TRACED, 0);
  source.set_unused_flags(KMC_EVER_TRACED | KMC_TRACED);
  note_running({&target, 1});
  return {};
}

void stop(std::span<Target> targets) REQUIRES(trace_control) {
  if (!select(targets,
              [](const Target&, TracePhase phase) { return phase == TracePhase::kRunning; }))
    return;
  change_flags(targets, 0, KMC_TRACED);
  for (Target& target : targets) {
    if (target.acts) trace_table_of(target.source)->set_running(false);
  }
}

void end_traces(std::span<Target> targets) REQUIRES(trace_control) {
  change_flags(targets, 0, KMC_EVER_TRACED | KMC_TRACED);
  for (Target& target : targets) {
    if (!target.acts) continue;
    TraceTable* const table = __atomic_exchange_n(
        trace_slot_of(target.source), static_cast<TraceTable*>(nullptr), __ATOMIC_ACQ_REL);
    trace_started_remove(table);
    if (planted(Planted::kResetDropsFirst)) {
      trace_users_drop(table->names());
      trace_sweep();
    }
    TraceTable::destroy(table);
  }
}

void reset(std::span<Target> targets) REQUIRES(trace_control) {
  for (Target& target : targets) {
    if (trace_state_of(target.source).phase == TracePhase::kRunning)
      trace_table_of(target.source)->clear();
  }
  if (select(targets,
             [](const Target&, TracePhase phase) { return phase == TracePhase::kStopped; }))
    end_traces(targets);
}

void mark(std::span<Target> targets) REQUIRES(trace_control) {
  for (Target& target : targets) {
    if (TraceTable* table = trace_table_of(target.source)) table->next_mark();
  }
}

bool is_about_checking(TraceWord word) {
  return word == TraceWord::kCheck || word == TraceWord::kNoCheck || word == TraceWord::kScan;
}

// True for a cache whose free objects are memory on which checking may write.
bool can_be_checked(TraceSource source) {
  return source.cache() && kmem_cache_can_be_checked(source.cache());
}

void execute_check(std::span<Target> targets, TraceWord word) REQUIRES(trace_control) {
  for (const Target& target : targets) {
    if (!can_be_checked(target.source)) continue;
    if (word == TraceWord::kCheck) {
      kmem_cache_check_start(target.source.cache());
    } else if (word == TraceWord::kNoCheck) {
      kmem_cache_check_stop(target.source.cache());
    } else {
      kmem_cache_check_scan(target.source.cache());
    }
  }
}

bool changes_traces(TraceWord word) {
  return word == TraceWord::kStart || word == TraceWord::kStop || word == TraceWord::kReset ||
         word == TraceWord::kMark || word == TraceWord::kRefs;
}

Result<void> execute(std::span<Target> targets, const TraceCommand& command, CommandScope scope)
    REQUIRES(trace_control) {
  if (changes_traces(command.word)) trace_commands_done++;
  switch (command.word) {
    case TraceWord::kStart:
    case TraceWord::kRefs:
      return start(targets, command, scope);
    case TraceWord::kStop:
      stop(targets);
      return {};
    case TraceWord::kReset:
      reset(targets);
      return {};
    case TraceWord::kMark:
      mark(targets);
      return {};
    case TraceWord::kCheck:
    case TraceWord::kNoCheck:
    case TraceWord::kScan:
      execute_check(targets, command.word);
      return {};
    case TraceWord::kSettle:
    case TraceWord::kSweep:
      break;  // run() executes these two without the lock
    case TraceWord::kLimit:
      trace_memory_set_limit(command.limit);
      break;
    case TraceWord::kReap:
      kmem_reap();
      break;
  }
  return {};
}

Result<void> check_later(Commands commands) REQUIRES(trace_control) {
  TraceLater later = trace_later;
  for (const TraceCommand& command : commands) TRY(later.advance(command));
  return {};
}

bool is_start(TraceWord word) {
  return word == TraceWord::kStart || word == TraceWord::kRefs;
}

// EINVAL if the source is a class of references and `options` sets a size.
Result<void> check_options(TraceSource source, const TraceOptions& options) {
  const TraceOptions without{.depth = options.depth, .pid = options.pid, .frees = options.frees};
  if (!source.references() || options == without) return {};
  return fail(Errno::EINVAL, "%.40s: references have no size: depth=N, pid=N and frees only",
              source.name());
}

// Checks each command against the states that the traces will have after the preceding commands. In
// a command for all sources, `mark` skips sources that are not traced, and `check` skips sources
// that cannot be checked.
Result<void> check_states(std::span<Target> targets, Commands commands, CommandScope scope)
    REQUIRES(trace_control) {
  for (const Target& target : targets) {
    TraceState state = trace_state_of(target.source);
    for (const TraceCommand& command : commands) {
      if (scope == CommandScope::kOneCache && is_about_checking(command.word) &&
          !can_be_checked(target.source)) {
        return fail(Errno::EINVAL, "%.40s cannot be checked: %s", target.source.name(),
                    target.source.cache()   ? "its free objects must not be written to"
                    : target.source.arena() ? "it is an arena"
                                            : "it is a class of references");
      }
      if (is_start(command.word)) {
        if (!is_meant(target.source, command, scope)) continue;
        TRY(check_options(target.source, command.options));
      }
      const bool passed_over = scope == CommandScope::kAllCaches &&
                               command.word == TraceWord::kMark && state.phase == TracePhase::kOff;
      if (!passed_over) TRY(trace_advance(state, command, target.source.name()));
    }
  }
  return scope == CommandScope::kAllCaches ? check_later(commands) : Result<void>();
}

bool takes_long(TraceWord word) {
  return word == TraceWord::kSettle || word == TraceWord::kSweep;
}

// Executes the commands in order, up to the first that must run without the lock. Returns the
// commands from that one on.
Result<Commands> run_locked(std::span<Target> targets, Commands commands, CommandScope scope)
    REQUIRES(trace_control) {
  TRY(check_states(targets, commands, scope));
  for (; !commands.empty() && !takes_long(commands.front().word); commands = commands.subspan(1)) {
    TRY(execute(targets, commands.front(), scope));
    if (scope == CommandScope::kAllCaches) TRY(trace_later.advance(commands.front()));
  }
  return commands;
}

// Runs settle and sweep without the control lock, so that other tasks can use traces meanwhile.
// After a settle or sweep, the remaining commands are checked against the sources and states at
// that time. If `source` is empty, the commands are for all sources.
Result<void> run(TraceSource source, Commands commands) {
  const CommandScope scope = source ? CommandScope::kOneCache : CommandScope::kAllCaches;
  for (;;) {
    {
      Targets targets;
      MutexGuard guard(trace_control);
      TRY(source ? targets.one(source) : targets.all());
      commands = TRY(run_locked(targets.span(), commands, scope));
    }
    if (commands.empty()) return {};
    if (commands.front().word == TraceWord::kSettle) {
      TRY(trace_settle());
    } else {
      trace_sweep();
    }
    commands = commands.subspan(1);
  }
}

// Starts the trace of the source if there is a request for `name`. Nobody else uses the source yet:
// either it is new, or the system boots and has one CPU. If there is no memory, logs that the
// source is not traced.
void start_if_wanted(TraceSource source, std::string_view name) REQUIRES(trace_control) {
  const std::optional<TraceOptions> options = trace_later.wants(name);
  if (!options || (source.references() && !trace_later.names(name))) return;
  if (!start_unused(source, *options)) {
    trace_later.count_untraced();
    return klog("%.40s is not traced: %s", source.name(), error_string());
  }
  trace_table_of(source)->set_mark(trace_later.mark());
}

int negated(const Result<void>& result) {
  return result ? 0 : -static_cast<int>(result.error());
}

}  // namespace

TraceState trace_state_of(TraceSource source) {
  const TraceTable* table = trace_table_of(source);
  if (!table) return {};
  return {.phase = table->running.load(std::memory_order_relaxed) ? TracePhase::kRunning
                                                                  : TracePhase::kStopped,
          .options = table->options(),
          .mark = table->mark()};
}

Result<void> trace_command(TraceSource source, std::string_view text) {
  const PageVector<TraceCommand> commands =
      TRY(trace_parse_commands(text, CommandScope::kOneCache));
  if (!source.can_be_traced()) {
    return fail(Errno::EPERM,
                "%.40s cannot be traced: the allocator or the tracer itself lives on it",
                source.name());
  }
  return run(source, {commands.data(), commands.size()});
}

Result<void> trace_command_all(std::string_view text) {
  const PageVector<TraceCommand> commands =
      TRY(trace_parse_commands(text, CommandScope::kAllCaches));
  return run({}, {commands.data(), commands.size()});
}

void trace_start_at_boot(std::string_view items) {
  if (items.empty()) klog("trace= names nothing: a cache, an arena or all is expected");
  const MutexGuard guard(trace_control);
  trace_later.expect(items);
  TraceItem item;
  for (std::string_view rest = items; trace_next_item(&rest, &item);) {
    if (!trace_check_item(item)) klog("trace=%s: %s", Quoted(item.name).get(), error_string());
  }
  for (TraceSource source = TraceSource::next({}); source; source = TraceSource::next(source)) {
    if (source.can_be_traced()) {
      start_if_wanted(source, source.name());
    } else if (trace_later.names(source.name())) {
      klog("trace=%s: it cannot be traced: the allocator or the tracer itself lives on it",
           source.name());
    }
  }
}

void trace_report_missing_names(std::string_view option) {
  constexpr std::string_view kTrace = "trace";
  size_t length = 0;
  const char* const items = boot_option(option.data(), &length);
  TraceItem item;
  for (std::string_view rest(items ? items : "", length); trace_next_item(&rest, &item);) {
    if (item.name == "all" || item.name.empty()) continue;
    // trace_start_at_boot() has logged a line for an invalid item.
    if (option == kTrace && !trace_check_item(item)) continue;
    const TraceSource source = TraceSource::find(item.name);
    const bool fits = source && (option == kTrace || source.cache());
    if (source) source.release();
    const char* const what = option == kTrace ? "cache, arena or class of references" : "cache";
    if (!fits)
      klog("%s=%s: no %s has this name so far", option.data(), Quoted(item.name).get(), what);
  }
}

// ---- New caches and arenas. If a new cache or arena can be traced, the control lock is held while
// it enters its list.

// No analysis, here and in entered(): it cannot follow the condition.
static void enter(TraceSource source, const char* name) NO_THREAD_SAFETY_ANALYSIS {
  if (!source.can_be_traced()) return;
  trace_control.lock();
  start_if_wanted(source, name);
}
static void entered(TraceSource source) NO_THREAD_SAFETY_ANALYSIS {
  if (source.can_be_traced()) trace_control.unlock();
}

void slab_trace_entering(kmem_cache* cache, const char* name) {
  enter(cache, name);
}
void slab_trace_entered(kmem_cache* cache) {
  entered(cache);
}
void arena_trace_entering(struct arena* arena, const char* name) {
  enter(arena, name);
}
void arena_trace_entered(struct arena* arena) {
  entered(arena);
}

// Ends the trace of a source to which nobody has a reference any more. So no command for it is
// under way. The caller may hold the control lock: opening a dump may run out of memory and reap
// caches, and one of these caches may be freed. So this function takes the lock only if the task
// does not hold it.
static void end_trace(TraceSource source) {
  if (!trace_table_of(source)) return;
  Target target{source, nullptr, true};
  if (trace_control.held()) {
    trace_control.known_held();
    return end_traces({&target, 1});
  }
  const MutexGuard guard(trace_control);
  end_traces({&target, 1});
}

void slab_trace_destroy(kmem_cache* cache) {
  end_trace(cache);
}
void arena_trace_destroy(struct arena* arena) {
  end_trace(arena);
}

int kmem_trace_start(kmem_cache* cache, const char* options) {
  char line[128];
  const int length = format(line, sizeof(line), "start %s", options ? options : "");
  if (static_cast<size_t>(length) >= sizeof(line)) return -static_cast<int>(Errno::EINVAL);
  return negated(trace_command(cache, line));
}
int kmem_trace_stop(kmem_cache* cache) {
  return negated(trace_command(cache, "stop"));
}
int kmem_trace_reset(kmem_cache* cache) {
  return negated(trace_command(cache, "reset"));
}
