// Tests the depots of caches on the live system. CPUs that contend for a depot get larger
// magazines. If caches are reaped while all CPUs allocate, the counts of constructed and destructed
// objects stay consistent.
#include <array>
#include <atomic>
#include <iterator>

#include "arch/x86_64/time.h"
#include "arena.h"
#include "core/cpu.h"
#include "core/ktest.h"
#include "core/log.h"
#include "core/not_roots.h"
#include "sched/sched_impl.h"
#include "slab.h"
#include "tests/cache_stats.h"
#include "tests/team.h"

namespace {

// Waits until `condition` is true. Returns false if it takes too long.
template <typename Condition>
bool comes_true(Condition condition) {
  const Nanoseconds deadline = monotonic_now() + Nanoseconds{60'000'000'000};
  while (!condition() && monotonic_now() < deadline) {
    static_cast<void>(task_sleep_until(monotonic_now() + Nanoseconds{1'000'000}));
  }
  return condition();
}

// Checks a cache without live objects. The task `memory` may still be emptying a magazine, so this
// function waits until all objects outside slabs are in magazines.
void expect_sound(kmem_cache* cache) {
  if (const char* const wrong = kmem_cache_verify(cache)) {
    klog("%s: %s", kmem_cache_name(cache), wrong);
    EXPECT(!"the cache is sound");
  }
  EXPECT(stats_of(cache).live == 0);
  EXPECT(comes_true([cache] {
    const struct kmem_cache_stats stats = stats_of(cache);
    return stats.objects_out == stats.magazine_rounds;
  }));
}

// A list of objects. The first word of each object is the link to the next.
struct Objects {
  void* first = nullptr;

  void take(kmem_cache* cache, unsigned count) {
    for (unsigned i = 0; i < count; i++) {
      auto** const object = static_cast<void**>(kmem_cache_alloc(cache, KM_ATOMIC));
      if (!object) continue;
      *object = first;
      first = object;
    }
  }
  void give(kmem_cache* cache) {
    while (first) {
      void* const next = *static_cast<void**>(first);
      kmem_cache_free(cache, first);
      first = next;
    }
  }
};

constinit kmem_cache* cache = nullptr;
constinit std::atomic<bool> over{false};

// Allocates so many objects that magazines move to the depot and back.
void churn(void*) {
  while (!over) {
    Objects objects;
    objects.take(cache, 500);
    objects.give(cache);
    task_yield();
  }
}

// ---- Objects with a second word that shows whether they are constructed.

constexpr uint64_t kConstructed = 0x5bd1e9955bd1e995;
struct Thing {
  void* link;
  uint64_t state;
  uint64_t more[6];
};
constinit std::atomic<int64_t> constructed{0}, destructed{0}, failed{0}, wrong{0}, calls{0};

int construct(void* memory, void*, int) {
  if (++calls % 50 == 0) {
    failed++;
    return 1;
  }
  static_cast<Thing*>(memory)->state = kConstructed;
  constructed++;
  return 0;
}

void destruct(void* memory, void*) {
  auto& thing = *static_cast<Thing*>(memory);
  if (thing.state != kConstructed) wrong++;
  thing.state = 0;
  destructed++;
}

void use(void*) {
  while (!over) {
    Objects objects;
    objects.take(cache, 200);
    for (void* object = objects.first; object; object = *static_cast<void**>(object)) {
      if (static_cast<Thing*>(object)->state != kConstructed) wrong++;
    }
    task_yield();
    objects.give(cache);
  }
}

// Reaps at least 36 times. Then continues until something was reaped from the cache's depot and the
// constructor has failed, or 20 seconds have passed.
void reap(void*) {
  const Nanoseconds deadline = monotonic_now() + Nanoseconds{20'000'000'000};
  for (unsigned i = 0;
       i < 36 || ((stats_of(cache).depot_reaped == 0 || failed == 0) && monotonic_now() < deadline);
       i++) {
    kmem_reap_some(static_cast<kmem_reap_extent>(i % 3));
    kmem_update();
    task_yield();
  }
  over = true;
}

// ---- The task `memory`, with a shortened sleep.

class FrequentLooks {
 public:
  FrequentLooks() { memory_task_set_look({10'000'000}); }
  ~FrequentLooks() { memory_task_set_look(kMemoryLook); }
};

// Allocates nearly all free memory. KM_ATOMIC allocations do not reap, so depots keep their
// magazines.
class MostOfMemory {
 public:
  MostOfMemory() {
    for (size_t size = kLargest; size >= kSmallest; size /= 2) {
      while (count_ < std::size(pieces_) && free_bytes() > size + kLeft) {
        void* const memory = arena_alloc(page_arena, size, KM_ATOMIC);
        if (!memory) break;
        pieces_[count_++] = {memory, size};
      }
    }
  }
  ~MostOfMemory() {
    while (count_ > 0) {
      const Span& piece = pieces_[--count_];
      arena_free(page_arena, piece.memory, piece.size);
    }
  }
  static uint64_t free_bytes() {
    struct arena_stats base;
    arena_stats(base_arena, &base);
    return base.total_bytes - base.allocated_bytes;
  }

 private:
  static constexpr size_t kLargest = 16 << 20, kSmallest = 64 << 10, kLeft = 2 << 20;
  struct Span {
    void* memory;
    size_t size;
  };
  // Too large for a stack. One instance at a time uses the array.
  NOT_ROOTS static inline Span pieces_[512];
  size_t count_ = 0;
};

}  // namespace

KTEST(memory_task_ends_intervals_and_reaps_the_surplus_when_little_is_free) {
  cache = kmem_cache_create("ktest_idle", 1024, 0, 0, nullptr, nullptr, nullptr, nullptr);
  EXPECT(cache);
  if (!cache) return;
  Objects objects;
  objects.take(cache, 2000);
  objects.give(cache);
  const uint64_t full = stats_of(cache).depot_full;
  EXPECT(full > 0);
  {
    const FrequentLooks looks;
    // All magazines are surplus after an interval without use. They stay, since there is enough
    // memory.
    EXPECT(comes_true([full] { return stats_of(cache).depot_surplus == full; }));
    EXPECT(stats_of(cache).depot_reaped == 0 && stats_of(cache).depot_full == full);
    const uint64_t before = MostOfMemory::free_bytes();
    const MostOfMemory most;
    EXPECT(MostOfMemory::free_bytes() < before / 16);
    EXPECT(comes_true([full] { return stats_of(cache).depot_reaped == full; }));
    EXPECT(stats_of(cache).depot_full == 0);
  }
  expect_sound(cache);
  kmem_cache_destroy(cache);
}

KTEST(memory_magazines_grow_where_cpus_wait_for_each_other) {
  cache = kmem_cache_create("ktest_growing", 64, 0, 0, nullptr, nullptr, nullptr, nullptr);
  EXPECT(cache);
  if (!cache) return;
  over = false;
  const uint64_t first = stats_of(cache).magazine_size;
  Team team(churn, nullptr);
  for (unsigned i = 0; i < 4; i++) team.add(CpuId{i % cpu_count()});
  // Where the host is busy, the CPUs of a guest seldom run at the same time: an update waits until
  // there is enough contention for larger magazines. A single CPU has none.
  constexpr uint64_t kEnough = 20;  // more than CONTENTION_MAX in slab_depot.c
  const auto grown = [updated = uint64_t{0}]() mutable {
    const struct kmem_cache_stats stats = stats_of(cache);
    if (stats.depot_contention >= updated + kEnough) {
      updated = stats.depot_contention;
      kmem_update();
    }
    return stats.magazine_resizes > 0;
  };
  EXPECT(cpu_count() == 1 || comes_true(grown));
  // Continue with both sizes of magazines in use.
  EXPECT(task_sleep_until(monotonic_now() + Nanoseconds{50'000'000}).ok());
  over = true;
  team.join();
  const struct kmem_cache_stats stats = stats_of(cache);
  EXPECT(cpu_count() == 1 ||
         (stats.magazine_resizes > 0 && stats.magazine_size > first && stats.depot_contention > 0));
  expect_sound(cache);
  kmem_cache_destroy(cache);
}

KTEST(memory_constructed_less_destructed_is_what_is_out_under_reap) {
  for (auto* count : {&constructed, &destructed, &failed, &wrong, &calls}) *count = 0;
  cache =
      kmem_cache_create("ktest_things", sizeof(Thing), 0, 0, nullptr, construct, destruct, nullptr);
  EXPECT(cache);
  if (!cache) return;
  over = false;
  Team users(use, nullptr), reapers(reap, nullptr);
  for (unsigned i = 0; i < 3; i++) users.add();
  reapers.add();
  reapers.join();
  users.join();
  expect_sound(cache);
  EXPECT(wrong == 0);
  EXPECT(stats_of(cache).depot_reaped > 0 && failed > 0);
  EXPECT(static_cast<uint64_t>(constructed - destructed) == stats_of(cache).objects_out);
  kmem_reap();
  EXPECT(constructed == destructed && stats_of(cache).slabs == 0);
  kmem_cache_destroy(cache);
  EXPECT(constructed == destructed);
}
