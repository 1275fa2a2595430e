// The depots of caches: magazine sizes, working sets and reaping.
#include <gtest/gtest.h>

#include <vector>

#include "slab_depot_world.h"

namespace {

constexpr unsigned kCpus = 4;

// ---- The sizes of magazines.

uint64_t magazines_live() {
  uint64_t live = 0;
  for (const char* name : {"kmem_magazine.32", "kmem_magazine.64", "kmem_magazine.128",
                           "kmem_magazine.256", "kmem_magazine.512"})
    live += stats_of(name).live;
  return live;
}

TEST_F(Depot, MagazinesGrowWithContentionUpToWhatTheirObjectsAllow) {
  struct Sizes {
    size_t object;
    uint64_t first, last;
  };
  for (const auto [object, first, last] :
       {Sizes{8, 30, 62}, Sizes{256, 30, 62}, Sizes{257, 14, 62}, Sizes{512, 14, 62},
        Sizes{513, 14, 30}, Sizes{4096, 14, 30}, Sizes{4097, 6, 14}, Sizes{16384, 6, 14},
        Sizes{16385, 2, 6}, Sizes{32768, 2, 6}, Sizes{32769, 2, 2}}) {
    kmem_cache* const cache = make("growing", object);
    EXPECT_EQ(stats_of(cache).magazine_size, first) << object;
    host::contend(100);
    uint64_t size = first;
    for (int interval = 0; interval < 6; interval++) {
      churn(cache, 100);
      kmem_update();
      const struct kmem_cache_stats stats = stats_of(cache);
      EXPECT_TRUE(size == last ? stats.magazine_size == last : stats.magazine_size > size)
          << object;
      size = stats.magazine_size;
    }
    host::contend(0);
    EXPECT_EQ(size, last) << object;
    EXPECT_GT(stats_of(cache).depot_contention, 0u);
    expect_sound(cache, 0);
    kmem_cache_destroy(cache);
  }
}

// The magazine size shrinks by one step after each 20 intervals without contention, down to the
// cache's first size. At the end, all magazines of the cache have been freed.
TEST_F(Depot, MagazinesShrinkWhenNobodyWaitsAnyMore) {
  constexpr int kCalm = 20;
  kmem_reap();
  kmem_cache* const cache = make("shrinking", 512);
  const uint64_t before = magazines_live();
  host::contend(100);
  for (int interval = 0; interval < 3; interval++) {
    churn(cache, 1'000);
    kmem_update();
  }
  host::contend(0);
  EXPECT_EQ(stats_of(cache).magazine_size, 62u);
  std::vector<void*> held = allocate(cache, 100);
  for (const uint64_t size : {62, 30, 14, 14}) {
    for (int interval = 0; interval < kCalm; interval++) {
      EXPECT_EQ(stats_of(cache).magazine_size, size) << interval;
      churn(cache, 1'000);
      kmem_update();
      expect_sound(cache, held.size());
    }
  }
  const uint64_t resizes = stats_of(cache).magazine_resizes;
  // Intervals with contention make the magazines grow again, and restart the count of intervals
  // without contention.
  host::contend(100);
  for (int interval = 0; interval < 2; interval++) {
    churn(cache, 1'000);
    kmem_update();
  }
  EXPECT_EQ(stats_of(cache).magazine_resizes, resizes + 2);
  host::contend(0);
  for (int interval = 1; interval < kCalm; interval++) kmem_update();
  EXPECT_EQ(stats_of(cache).magazine_size, 62u);
  free_all(cache, held);
  kmem_reap();
  expect_sound(cache, 0);
  EXPECT_EQ(magazines_live(), before);
  kmem_cache_destroy(cache);
}

TEST_F(Depot, LittleContentionAndThatOfOtherIntervalsDoNotCount) {
  kmem_cache* const cache = make("calm", 64);
  for (int interval = 0; interval < 20; interval++) {
    host::contend(100);
    // The first pair of alloc and free takes the depot's lock three times, so it counts as three
    // contended tries.
    kmem_cache_free(cache, kmem_cache_alloc(cache, KM_ATOMIC));
    host::contend(0);
    kmem_reap();
    churn(cache, 1'000);
    kmem_reap();
    kmem_update();
  }
  EXPECT_GT(stats_of(cache).depot_contention, 20u);
  EXPECT_EQ(stats_of(cache).magazine_resizes, 0u);
  EXPECT_EQ(stats_of(cache).magazine_size, 30u);
  kmem_cache_destroy(cache);
}

TEST_F(Depot, OutgrownMagazinesAreUsedUpAndFreed) {
  kmem_reap();
  const uint64_t others = stats_of("kmem_magazine.256").live, all = magazines_live();
  kmem_cache* const cache = make("outgrowing", 64);
  host::contend(100);
  churn(cache, 900);
  host::contend(0);
  const uint64_t small = stats_of("kmem_magazine.256").live - others;
  EXPECT_GE(small, 900u / 30);
  kmem_update();
  EXPECT_EQ(stats_of(cache).magazine_size, 62u);
  EXPECT_EQ(stats_of(cache).depot_empty, 0u) << "they are too small";
  // After the allocation of all objects, the only magazines of the first size are this CPU's two.
  std::vector<void*> objects = allocate(cache, 900);
  kmem_update();
  EXPECT_LE(stats_of("kmem_magazine.256").live, others + 2);
  // The freed objects fill these two small magazines, and then only large magazines.
  free_all(cache, objects);
  const struct kmem_cache_stats stats = stats_of(cache);
  EXPECT_EQ(stats.magazine_rounds, 900u);
  EXPECT_LE(stats.depot_full, 900u / 62 + 1);
  expect_sound(cache, 0);
  kmem_cache_destroy(cache);
  kmem_reap();
  EXPECT_EQ(magazines_live(), all);
}

// ---- Working sets.

// A cache whose depot was partly used in the last interval. Before this interval, the depot got 40
// full magazines of 30 objects. During the interval, half of these objects were allocated and freed
// again.
struct Used {
  explicit Used(arena* source) : cache(make("used", 64, source)) {
    churn(cache, 1'200);
    kmem_update();
    churn(cache, 600);
    kmem_update();
  }
  ~Used() { kmem_cache_destroy(cache); }
  kmem_cache* const cache;
};

TEST_F(Depot, TheSurplusIsWhatAnIntervalHadNoUseFor) {
  Used used(nullptr);
  const struct kmem_cache_stats stats = stats_of(used.cache);
  EXPECT_GE(stats.depot_full, 38u);
  // The 600 objects that the interval did not use fill twenty magazines. One or two of these
  // magazines may be the CPU's, not the depot's.
  EXPECT_GE(stats.depot_surplus, 18u);
  EXPECT_LE(stats.depot_surplus, 22u);
  kmem_reap_some(KMEM_REAP_SURPLUS);
  struct kmem_cache_stats after = stats_of(used.cache);
  EXPECT_EQ(after.depot_reaped, stats.depot_surplus);
  EXPECT_EQ(after.depot_full, stats.depot_full - stats.depot_surplus) << "the working set stays";
  EXPECT_EQ(after.depot_surplus, 0u);
  EXPECT_LT(after.slabs, stats.slabs) << "slabs went back";
  kmem_reap_some(KMEM_REAP_SURPLUS);
  EXPECT_EQ(stats_of(used.cache).depot_full, after.depot_full) << "and stays";
  // The remaining magazines are enough for another 600 allocations: no new slab is needed.
  const uint64_t slabs = stats_of(used.cache).slabs;
  churn(used.cache, 600);
  EXPECT_EQ(stats_of(used.cache).slabs, slabs);
  // The second update ends an interval without use. After that, all magazines are surplus.
  kmem_update();
  kmem_update();
  EXPECT_EQ(stats_of(used.cache).depot_surplus, stats_of(used.cache).depot_full);
  kmem_reap_some(KMEM_REAP_SURPLUS);
  after = stats_of(used.cache);
  EXPECT_EQ(after.depot_full, 0u);
  EXPECT_EQ(after.depot_empty, 0u) << "empty magazines have a working set of their own";
  expect_sound(used.cache, 0);
}

TEST_F(Depot, WhatIsUsedSinceTheUpdateIsNoSurplusAnyMore) {
  Used used(nullptr);
  kmem_update();
  kmem_update();  // no magazine was used in the interval that ends here
  const uint64_t full = stats_of(used.cache).depot_full;
  EXPECT_EQ(stats_of(used.cache).depot_surplus, full);
  churn(used.cache, 900);
  EXPECT_LE(stats_of(used.cache).depot_surplus, full - 900 / 30 + 2);
  kmem_reap_some(KMEM_REAP_SURPLUS);
  EXPECT_GE(stats_of(used.cache).depot_full, 900u / 30 - 2);
}

TEST_F(Depot, EachExtentOfAReapTakesMore) {
  Used used(nullptr);
  kmem_reap_some(KMEM_REAP_DEPOTS);
  struct kmem_cache_stats stats = stats_of(used.cache);
  EXPECT_EQ(stats.depot_full, 0u);
  EXPECT_EQ(stats.depot_empty, 0u);
  EXPECT_GT(stats.magazine_rounds, 0u) << "this CPU's";
  kmem_reap_some(KMEM_REAP_ALL);
  stats = stats_of(used.cache);
  EXPECT_EQ(stats.magazine_rounds, 0u);
  EXPECT_EQ(stats.objects_out, 0u);
  EXPECT_EQ(stats.slabs, 0u);
}

// Allocates all free memory of base_arena. After that, only a reap can free memory.
class Exhausted {
 public:
  Exhausted() {
    while (void* const page = arena_alloc(base_arena, 4096, KM_ATOMIC)) pages_.push_back(page);
  }
  ~Exhausted() {
    for (void* page : pages_) arena_free(base_arena, page, 4096);
  }

 private:
  std::vector<void*> pages_;
};

TEST_F(Depot, MemoryPressureTakesTheSurplusFirstThenDepotsThenTheCpus) {
  kmem_reap();
  Used used(base_arena);
  Exhausted exhausted;
  const struct kmem_cache_stats before = stats_of(used.cache);
  EXPECT_EQ(arena_alloc(base_arena, 4096, KM_ATOMIC), nullptr);
  EXPECT_EQ(stats_of(used.cache).depot_reaped, 0u) << "atomic allocations never reap";

  std::vector<void*> found;
  const auto take = [&] {
    found.push_back(arena_alloc(base_arena, 4096, KM_SLEEP));
    return found.back() != nullptr;
  };
  ASSERT_TRUE(take());
  EXPECT_EQ(stats_of(used.cache).depot_full, before.depot_full - before.depot_surplus)
      << "the working set is kept";
  while (stats_of(used.cache).depot_full > 0) ASSERT_TRUE(take());
  EXPECT_GT(stats_of(used.cache).magazine_rounds, 0u) << "the CPU's are kept";
  while (take()) continue;
  found.pop_back();
  EXPECT_EQ(stats_of(used.cache).slabs, 0u) << "nothing idles";
  for (void* page : found) arena_free(base_arena, page, 4096);
}

TEST_F(Depot, AnAllocationFromACacheReapsToo) {
  kmem_reap();
  Used used(base_arena);
  kmem_cache* const wanting = make("wanting", 64, base_arena);
  Exhausted exhausted;
  EXPECT_EQ(kmem_cache_alloc(wanting, KM_ATOMIC), nullptr);
  EXPECT_EQ(stats_of(used.cache).depot_reaped, 0u);
  void* const object = kmem_cache_alloc(wanting, KM_SLEEP);
  EXPECT_NE(object, nullptr);
  EXPECT_GT(stats_of(used.cache).depot_reaped, 0u);
  EXPECT_GT(stats_of(used.cache).depot_full, 0u);
  kmem_cache_free(wanting, object);
  kmem_cache_destroy(wanting);
}

std::vector<int> import_flags;

// An allocation from `cache` calls the quantum cache of `dry`, which calls the arena `dry`. If each
// of the three reaped and tried again three times, there would be 64 calls of the import function.
TEST_F(Depot, OnlyTheOutermostAllocationReaps) {
  arena* const dry = arena_create(
      "dry", 0, 0, 4096,
      [](arena*, size_t, int flags) -> void* {
        import_flags.push_back(flags);
        return nullptr;
      },
      [](arena*, void*, size_t) {}, base_arena, 4096, KM_SLEEP);
  kmem_cache* const cache = make("thirsty", 64, dry);
  EXPECT_EQ(kmem_cache_alloc(cache, KM_ATOMIC), nullptr);
  EXPECT_EQ(import_flags.size(), 1u);
  EXPECT_EQ(kmem_cache_alloc(cache, KM_SLEEP), nullptr);
  EXPECT_EQ(import_flags, std::vector<int>(1 + 4, KM_ATOMIC))
      << "once more after each of three reaps";
  EXPECT_EQ(arena_alloc(dry, 8192, KM_SLEEP), nullptr);
  EXPECT_EQ(import_flags.size(), 1u + 4 + 4);
  kmem_cache_destroy(cache);
  arena_destroy(dry);
}

TEST_F(Depot, AReapLeavesNothingIdleAnywhere) {
  kmem_cache* const caches[] = {make("one", 24), make("two", 1000), make("three", 5000),
                                make("four", 4096)};
  kmem_reap();
  struct arena_stats before, after;
  arena_stats(base_arena, &before);
  host::run_cpus(kCpus, [&](unsigned cpu) {
    for (int i = 0; i < 3; i++) churn(caches[(cpu + i) % 4], 300);
  });
  kmem_reap();
  arena_stats(base_arena, &after);
  EXPECT_EQ(after.allocated_bytes, before.allocated_bytes);
  for (kmem_cache* cache : caches) {
    EXPECT_EQ(stats_of(cache).slabs, 0u);
    kmem_cache_destroy(cache);
  }
}

}  // namespace
