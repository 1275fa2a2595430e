// Tests traces of arenas. Caches and other arenas import from an arena; all other callers are its
// direct callers. An allocation of a direct caller appears in the trace of its arena and in no
// other trace. Every byte of memory has one owner.
#include <atomic>

#include "arch/x86_64/paging.h"
#include "arch/x86_64/smp.h"
#include "arch/x86_64/time.h"
#include "arena.h"
#include "core/cpu.h"
#include "core/errstr.h"
#include "core/ktest.h"
#include "intern/trace_memory.h"
#include "kmalloc.h"
#include "lib/string.h"
#include "pages.h"
#include "tests/dump_text.h"
#include "tests/team.h"
#include "tests/trace_records.h"
#include "trace/trace.h"

namespace {

constexpr size_t kLarge = 20'000;

// True if exactly one trace has a record of the address: the trace of `owner`, with this size.
bool only_owner(TraceSource owner, const void* object, size_t size) {
  unsigned found = 0;
  bool owners = false;
  for (TraceSource source = TraceSource::next({}); source; source = TraceSource::next(source)) {
    for_each_record(source, [&](const TraceRecord& record) {
      if (record.object() != reinterpret_cast<uint64_t>(object)) return;
      found++;
      owners |= source == owner && record.size() == size;
    });
  }
  return found == 1 && owners;
}

void* take_page() {
  Result<PhysAddr> page = page_alloc(KM_SLEEP);
  return page ? direct_map(*page) : nullptr;
}

}  // namespace

KTEST(arena_trace_every_allocation_has_one_owner) {
  EXPECT(trace_command_all("start").ok());
  void* const large = kmalloc(kLarge, KM_SLEEP);
  void* const small = kmalloc(100, KM_SLEEP);
  void* const base = arena_alloc(base_arena, 3 * kPageSize, KM_SLEEP);
  void* const span = arena_span_alloc(page_arena, 2 * kPageSize, KM_SLEEP);
  EXPECT(only_owner(page_arena, large, kLarge));
  EXPECT(only_owner(kmem_cache_of(small), small, 100));
  EXPECT(only_owner(base_arena, base, 3 * kPageSize));
  EXPECT(!only_owner(page_arena, span, 2 * kPageSize));
  kfree(large);
  kfree(small);
  arena_free(base_arena, base, 3 * kPageSize);
  arena_span_free(page_arena, span, 2 * kPageSize);
  EXPECT(!only_owner(page_arena, large, kLarge) && !only_owner(base_arena, base, 3 * kPageSize));
  // Sources that cannot be traced have no trace: quantum caches, and the caches and arenas that the
  // allocator and the tracer use themselves.
  for (TraceSource source = TraceSource::next({}); source; source = TraceSource::next(source)) {
    if (!source.can_be_traced()) EXPECT(!trace_table_of(source));
  }
  EXPECT(trace_command_all("stop\nreset").ok());
  EXPECT(trace_memory_used() == 0);
}

KTEST(arena_trace_states_errors_and_names) {
  const TraceSource trace = TraceSource::find("trace");
  EXPECT(trace.arena() && !trace.can_be_traced());
  EXPECT(trace_command(trace, "start").error() == Errno::EPERM);
  trace.release();

  // Arenas and caches share one name space. If a name is in use, the new arena or cache gets a
  // suffix.
  arena* const first =
      arena_create("ktest_name", 1, 100, 1, nullptr, nullptr, nullptr, 0, KM_SLEEP);
  arena* const second =
      arena_create("ktest_name", 1, 100, 1, nullptr, nullptr, nullptr, 4, KM_SLEEP);
  kmem_cache* const third =
      kmem_cache_create("ktest_name", 64, 0, 0, nullptr, nullptr, nullptr, nullptr);
  arena* const references =
      arena_create("ref.test", 1, 100, 1, nullptr, nullptr, nullptr, 0, KM_SLEEP);
  EXPECT(references && std::string_view(arena_name(references)) == "ref.test.2");
  arena_destroy(references);
  EXPECT(first && second && third);
  if (!first || !second || !third) return;
  EXPECT(strcmp(arena_name(first), "ktest_name") == 0);
  EXPECT(strcmp(arena_name(second), "ktest_name.2") == 0);
  EXPECT(strcmp(kmem_cache_name(third), "ktest_name.3") == 0);
  const TraceSource found = TraceSource::find("ktest_name.2");
  EXPECT(found == second);
  found.release();
  kmem_cache_destroy(third);
  arena_destroy(first);

  // The trace counts allocations from before its start as untracked. After the arena is destroyed,
  // its structure and its trace stay until the last holder releases the arena.
  void* const before = arena_alloc(second, 3, KM_SLEEP);
  EXPECT(trace_command(second, "start depth=3").ok());
  EXPECT(trace_command(second, "start").error() == Errno::EBUSY);
  void* const after = arena_alloc(second, 9, KM_SLEEP);
  {
    const DumpText dump(second);
    EXPECT(dump.has("kmemtrace ktest_name.2 state running objsize 1 depth 3 "));
    EXPECT(dump.number("seen ") == 1 && dump.number(" live ") == 1 && dump.number(" bytes ") == 9);
    EXPECT(dump.number(" untracked ") == 1);
  }
  arena_free(second, before, 3);
  arena_free(second, after, 9);
  const TraceSource held = second;
  held.hold();
  arena_destroy(second);
  EXPECT(held.is_zombie() && !TraceSource::find("ktest_name.2"));
  {
    const DumpText dump(held);
    EXPECT(dump.identities_hold() && dump.number(" live ") == 0);
    EXPECT(dump.number(" freed ") == 1 && dump.number(" unmatched ") == 1);
  }
  held.release();
  EXPECT(trace_memory_used() == 0);
}

// --- Every byte of memory has one owner.

namespace {

bool is_memory(struct arena* arena) {
  while (arena && arena != base_arena) arena = arena_parent(arena);
  return arena == base_arena;
}

// Accounts for all memory that base_arena has handed out. Sums, in bytes:
struct Memory {
  uint64_t handed_out = 0;  // allocated_bytes of base_arena

  // Owned: the live objects of every cache whose slabs come from base_arena, directly or not.
  // Quantum caches own nothing, since they serve their arena. `own_objects` counts the allocator's
  // own caches separately, because the number of slab structures, bufctls and magazines depends on
  // idle objects.
  uint64_t objects = 0, own_objects = 0;
  // Also owned: what direct callers have allocated, in whole quanta, from base_arena and from the
  // arenas that import from base_arena. For each arena, `direct` counts its allocated segments and
  // the live objects of its quantum caches, without the spans that other arenas and caches have
  // imported.
  uint64_t direct = 0;

  // Free: objects in slabs and magazines, including those of quantum caches.
  uint64_t free_objects = 0;
  // Also free: free segments of imported spans.
  uint64_t free_segments = 0;

  // Overhead: memory of slabs besides objects (slab structures, padding for alignment and checking,
  // colours, the rest of the last page), the hashes of caches and arenas, and boundary tags.
  uint64_t slab_overhead = 0, hashes = 0, tags = 0;

  Memory() {
    for (struct arena* arena = arena_next(nullptr); arena; arena = arena_next(arena)) add(arena);
    for (kmem_cache* cache = kmem_cache_next(nullptr); cache; cache = kmem_cache_next(cache))
      add(cache);
  }

  uint64_t owned() const { return objects + own_objects + direct; }
  bool adds_up() const {
    return owned() == handed_out - free_objects - free_segments - slab_overhead - hashes - tags;
  }
  void print() const {
    klog("handed out %lu objects %lu own objects %lu direct %lu free objects %lu free segments %lu",
         handed_out, objects, own_objects, direct, free_objects, free_segments);
    klog("slabs %lu hashes %lu tags %lu", slab_overhead, hashes, tags);
  }

 private:
  void add(struct arena* arena) {
    struct arena_stats stats;
    arena_stats(arena, &stats);
    hashes += stats.hash_bytes;
    if (!is_memory(arena)) return;
    direct += stats.direct_bytes;
    if (arena == base_arena) {
      handed_out = stats.allocated_bytes;
      tags = stats.tag_bytes;
    } else {
      free_segments += stats.total_bytes - stats.allocated_bytes;
    }
  }
  void add(kmem_cache* cache) {
    struct kmem_cache_stats stats;
    kmem_cache_stats(cache, &stats);
    hashes += stats.hash_bytes;
    if (!is_memory(kmem_cache_arena(cache))) return;
    const int flags = kmem_cache_flags(cache);
    if (!(flags & KMC_QCACHE))
      (flags & KMC_NOTRACE ? own_objects : objects) += stats.live * stats.object_size;
    free_objects += (stats.objects_in_slabs - stats.live) * stats.object_size;
    slab_overhead += stats.total_bytes - stats.objects_in_slabs * stats.object_size;
  }
};

void expect_all_owned() {
  const Memory memory;
  EXPECT(memory.adds_up());
  if (!memory.adds_up()) memory.print();
}

std::atomic<bool> churn_stop;

// Allocates memory of several kinds: objects of kmalloc caches, larger blocks, pages and kernel
// stacks.
void churn(void*) {
  struct Span {
    void* memory = nullptr;
    bool page = false;
  };
  Span pieces[48];
  const auto give = [](Span& piece) {
    if (!piece.memory) return;
    if (piece.page) {
      page_free(direct_map_phys(piece.memory));
    } else {
      kfree(piece.memory);
    }
    piece.memory = nullptr;
  };
  while (!churn_stop) {
    Span& piece = pieces[ktest_random() % std::size(pieces)];
    give(piece);
    piece.page = ktest_random() % 4 == 0;
    piece.memory = piece.page ? take_page() : kmalloc(1 + ktest_random() % 60'000, KM_SLEEP);
    if (ktest_random() % 32 == 0) {
      if (Result<KernelStack> stack = kernel_stack_alloc()) kernel_stack_free(*stack);
    }
    if (ktest_random() % 64 == 0) task_yield();
  }
  for (Span& piece : pieces) give(piece);
}

}  // namespace

// Would find a free that compares only the 48 bits of a record: the free of a number that no record
// can hold would then drop the record of another number.
KTEST(arena_trace_numbers_that_no_record_holds) {
  constexpr uintptr_t kLow = 1 << 20, kHigh = uintptr_t{1} << 48 | kLow;
  constexpr unsigned kCount = 200;
  struct arena* const arena =
      arena_create("ktest_wide", kLow, kCount, 1, nullptr, nullptr, nullptr, 0, KM_SLEEP);
  EXPECT(arena && arena_add(arena, kHigh, kCount, KM_SLEEP) == 0);
  EXPECT(trace_command(arena, "start").ok());
  for (unsigned i = 0; i < 2 * kCount; i++) EXPECT(arena_alloc(arena, 1, KM_SLEEP));
  const auto free_all = [arena](uintptr_t base) {
    for (unsigned i = 0; i < kCount; i++) arena_free(arena, reinterpret_cast<void*>(base + i), 1);
  };
  const auto counters = [arena] { return counters_of(arena); };
  EXPECT(counters().live == kCount && counters().dropped == kCount);
  free_all(kHigh);
  EXPECT(counters().live == kCount && counters().unmatched == kCount);
  free_all(kLow);
  EXPECT(counters().live == 0);
  EXPECT(counters().recorded == counters().freed);
  EXPECT(trace_command(arena, "stop\nreset").ok());
  arena_destroy(arena);
}

KTEST(arena_trace_every_byte_has_one_owner) {
  EXPECT(trace_command_all("settle").ok());
  expect_all_owned();
  const Memory before;
  EXPECT(trace_command_all("start").ok());
  churn_stop = false;
  Team team(churn, nullptr);
  for (unsigned i = 0; i < 2 * cpu_count(); i++) team.add();
  static_cast<void>(task_sleep_until(monotonic_now() + Nanoseconds{200'000'000}));
  churn_stop = true;
  team.join();
  EXPECT(trace_command_all("settle").ok());
  // All memory has an owner while the tracer's tables exist, and after they are freed.
  expect_all_owned();
  EXPECT(trace_command_all("stop\nreset\nsettle").ok());
  expect_all_owned();
  const Memory after;
  EXPECT(after.objects == before.objects && after.direct == before.direct);
  // A page that the test holds adds its size to `direct`.
  void* const page = take_page();
  const Memory held;
  EXPECT(held.direct == after.direct + kPageSize);
  page_free(direct_map_phys(page));
}
