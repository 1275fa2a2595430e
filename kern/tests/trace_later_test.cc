// Tests trace_command_all("start"): this start stays in force until a `stop`. Caches and arenas
// that are created between the two are traced from their first object on, even if they are created
// while the command `start` runs.
#include <atomic>
#include <iterator>
#include <string_view>

#include "arena.h"
#include "core/cpu.h"
#include "core/ktest.h"
#include "intern/page_buffer.h"
#include "intern/trace_memory.h"
#include "slab.h"
#include "tests/dump_text.h"
#include "tests/team.h"
#include "trace/control/control.h"
#include "trace/trace.h"

namespace {

kmem_cache* make_cache(int flags = 0) {
  kmem_cache* const cache =
      kmem_cache_create("ktest_later", 64, 0, flags, nullptr, nullptr, nullptr, nullptr);
  EXPECT(cache);
  return cache;
}

arena* make_arena(int flags) {
  arena* const made =
      arena_create("ktest_later", 1 << 20, 1 << 20, 1, nullptr, nullptr, nullptr, 0, flags);
  EXPECT(made);
  return made;
}

bool status_has(std::string_view what) {
  PageBuffer<char> buffer;
  if (!buffer.reserve(64 * 1024)) return false;
  Result<size_t> length = trace_status(buffer.data(), buffer.capacity());
  EXPECT(length.ok() && *length <= buffer.capacity());
  return std::string_view(buffer.data(), *length).find(what) != std::string_view::npos;
}

TracePhase phase_of(TraceSource source) {
  const MutexGuard guard(trace_control);
  return trace_state_of(source).phase;
}

}  // namespace

KTEST(trace_later_arenas_too_but_not_what_cannot_be_traced) {
  EXPECT(trace_command_all("start").ok());
  arena* const traced = make_arena(KM_SLEEP);
  void* const address = arena_alloc(traced, 100, KM_SLEEP);
  {
    const DumpText dump(traced);
    EXPECT(dump.number(" recorded ") == 1 && dump.number(" bytes ") == 100);
    EXPECT(dump.number(" untracked ") == 0);
  }
  arena* const forbidden = make_arena(KM_SLEEP | KM_NOTRACE);
  kmem_cache* const cache = make_cache(KMC_NOTRACE);
  for (const TraceSource source : {TraceSource(forbidden), TraceSource(cache)}) {
    EXPECT(phase_of(source) == TracePhase::kOff);
    EXPECT(!(source.flags() & (KMC_TRACED | KMC_EVER_TRACED)));
  }
  // An arena's quantum caches have no traces of their own.
  arena* const cached =
      arena_create("ktest_cached", 1 << 20, 1 << 20, 64, nullptr, nullptr, nullptr, 128, KM_SLEEP);
  void* const quantum = arena_alloc(cached, 64, KM_SLEEP);
  {
    const DumpText dump(cached);
    EXPECT(dump.number(" recorded ") == 1 && dump.number(" untracked ") == 0);
  }
  arena_free(cached, quantum, 64);
  arena_free(traced, address, 100);
  EXPECT(trace_command_all("stop\nreset").ok());
  arena_destroy(cached);
  arena_destroy(traced);
  arena_destroy(forbidden);
  kmem_cache_destroy(cache);
  EXPECT(trace_memory_used() == 0);
}

// The pool has pages for the tables of some caches only. The other caches work without a table and
// are reported as untraced; repeating the start traces them.
KTEST(trace_later_without_memory_a_cache_is_made_and_said_to_be_untraced) {
  EXPECT(trace_command_all("start").ok());
  const uint64_t limit = trace_memory_limit();
  trace_memory_set_limit(kPageSize);
  static kmem_cache* caches[200];
  size_t count = 0;
  bool untraced = false;
  while (!untraced && count < std::size(caches)) {
    caches[count] = make_cache();
    if (!caches[count]) break;
    untraced = phase_of(caches[count++]) == TracePhase::kOff;
  }
  EXPECT(untraced);
  EXPECT(status_has(" untraced 1 "));
  kmem_cache* const last = caches[count - 1];
  void* const object = kmem_cache_alloc(last, KM_SLEEP);
  EXPECT(object);
  trace_memory_set_limit(limit);
  EXPECT(trace_command_all("start").ok());
  EXPECT(status_has(" untraced 0 "));
  {
    const DumpText dump(last);
    EXPECT(dump.has(" state running ") && dump.number(" untracked ") == 1);
  }
  kmem_cache_free(last, object);
  while (count > 0) kmem_cache_destroy(caches[--count]);
  EXPECT(trace_command_all("stop\nreset").ok());
  EXPECT(trace_memory_used() == 0);
}

// --- Caches and arenas are created on several CPUs while traces start and stop.

namespace {

constexpr unsigned kRounds = 20, kMakers = 3, kKept = 5;

// `version` is odd while a command is under way. `traced` is valid while `version` is even.
struct Makers {
  std::atomic<bool> stop{false};
  std::atomic<uint32_t> version{0};
  std::atomic<bool> traced{false};
  std::atomic<unsigned> made{0};
  std::atomic<unsigned> wrong{0};
};
constinit Makers makers{};

struct Made {
  TraceSource source;
  void* object = nullptr;  // first object of `source`
};

Made make_one(bool is_arena) {
  if (is_arena) {
    arena* const arena = make_arena(KM_SLEEP);
    return {arena, arena_alloc(arena, 1, KM_SLEEP)};
  }
  kmem_cache* const cache = make_cache();
  return {cache, kmem_cache_alloc(cache, KM_SLEEP)};
}

void give_back(const Made& made) {
  if (!made.source) return;
  if (arena* const arena = made.source.arena()) {
    arena_free(arena, made.object, 1);
    arena_destroy(arena);
  } else {
    kmem_cache_free(made.source.cache(), made.object);
    kmem_cache_destroy(made.source.cache());
  }
}

// Creates a cache or an arena. If no command was under way meanwhile, `traced` tells what to
// expect. If `traced` is set, there must be a trace with a record of the first object; otherwise
// there must be no trace.
void make_and_look(Made& made) {
  const uint32_t version = makers.version;
  made = make_one(ktest_random() % 4 == 0);
  EXPECT(made.object);
  const MutexGuard guard(trace_control);
  if (version % 2 != 0 || makers.version != version) return;
  TraceTable* const table = trace_table_of(made.source);
  if (!table) {
    makers.wrong += makers.traced;
    return;
  }
  const TraceCounters counters = table->counters();
  makers.wrong += !makers.traced || counters.seen != 1 || counters.live != 1;
}

void make_many(void*) {
  Made kept[kKept] = {};
  for (unsigned i = 0; !makers.stop; i++) {
    Made& made = kept[i % kKept];
    give_back(made);
    make_and_look(made);
    makers.made++;
    // While a task waits for a cross call, its CPU runs no other task. This yield lets the other
    // tasks run.
    task_yield();
  }
  for (const Made& made : kept) give_back(made);
}

// Gives the command while caches and arenas are created. Afterwards, if `traced` is set, every
// cache and arena that can be traced must be traced. Otherwise none must be traced.
void command(const char* text, bool traced) {
  const unsigned before = makers.made;
  while (makers.made < before + kMakers) task_yield();
  makers.version++;
  EXPECT(trace_command_all(text).ok());
  makers.traced = traced;
  makers.version++;
  for (TraceSource source = TraceSource::next({}); source; source = TraceSource::next(source)) {
    if (source.references()) continue;  // references are started separately
    if (source.can_be_traced() && (phase_of(source) == TracePhase::kRunning) != traced)
      makers.wrong++;
  }
}

}  // namespace

KTEST(trace_later_nothing_slips_between_start_and_what_is_made_later) {
  EXPECT(trace_command_all("settle").ok());
  makers.stop = false;
  makers.made = 0;
  makers.wrong = 0;
  Team team(make_many, nullptr);
  for (unsigned i = 0; i < kMakers; i++) team.add(CpuId{(i + 1) % cpu_count()});
  for (unsigned round = 0; round < kRounds; round++) {
    command("start", true);
    command(round % 2 == 0 ? "stop\nreset" : "stop", false);
    EXPECT(trace_command_all("reset").ok());
  }
  makers.stop = true;
  team.join();
  EXPECT(makers.wrong == 0);
  EXPECT(trace_command_all("stop\nreset").ok());
  EXPECT(trace_memory_used() == 0);
}
