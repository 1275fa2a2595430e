// Depots: the sizes of magazines, working sets, reaping, and their effect on constructors and
// destructors.
#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <random>
#include <set>
#include <vector>

#include "arena.h"
#include "cpus.h"
#include "pages.h"
#include "slab.h"
#include "slab_os.h"
#include "slab_trace.h"

void* slab_trace_alloc(kmem_cache*, void* object, size_t, const void*, uint64_t saved) {
  slab_os_irq_restore(saved);
  return object;
}
void slab_trace_free(kmem_cache*, void*, uint64_t saved) {
  slab_os_irq_restore(saved);
}
void slab_trace_mourn(kmem_cache*, uint64_t) {}
void slab_trace_destroy(kmem_cache*) {}

namespace {

constexpr unsigned kCpus = 4;

class World : public testing::Environment {
  void SetUp() override { host::memory_start(32 << 20); }
};
const auto* const world = testing::AddGlobalTestEnvironment(new World);

struct kmem_cache_stats stats_of(kmem_cache* cache) {
  struct kmem_cache_stats stats;
  kmem_cache_stats(cache, &stats);
  return stats;
}

struct kmem_cache_stats stats_of(const char* name) {
  kmem_cache* const cache = kmem_cache_find(name);
  EXPECT_NE(cache, nullptr) << name;
  const struct kmem_cache_stats stats = stats_of(cache);
  kmem_cache_release(cache);
  return stats;
}

kmem_cache* make(const char* name, size_t size, arena* source = nullptr) {
  return kmem_cache_create(name, size, 0, 0, source, nullptr, nullptr, nullptr);
}

std::vector<void*> allocate(kmem_cache* cache, size_t count) {
  std::vector<void*> objects(count);
  for (void*& object : objects) object = kmem_cache_alloc(cache, KM_ATOMIC);
  return objects;
}

void free_all(kmem_cache* cache, std::vector<void*>& objects) {
  for (void* object : objects) kmem_cache_free(cache, object);
  objects.clear();
}

// So that all objects in the depot pass through CPUs' magazines.
void churn(kmem_cache* cache, size_t count) {
  std::vector<void*> objects = allocate(cache, count);
  free_all(cache, objects);
}

void expect_sound(kmem_cache* cache, uint64_t live) {
  const char* const wrong = kmem_cache_verify(cache);
  ASSERT_EQ(wrong, nullptr) << wrong;
  const struct kmem_cache_stats stats = stats_of(cache);
  ASSERT_EQ(stats.live, live);
  ASSERT_EQ(stats.objects_out, live + stats.magazine_rounds);
}

class Depot : public testing::Test {
 protected:
  void TearDown() override {
    host::contend(0);
    host::fail_pages(0);
    EXPECT_EQ(host::take_log(), "");
  }
};

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

// A size at a time, not below the first, and only after a long calm; larger magazines are freed
// when they come back empty.
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
  // An interval with a waiting CPU restarts the calm; many such intervals make magazines grow
  // again.
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
    kmem_cache_free(cache, kmem_cache_alloc(cache, KM_ATOMIC));  // the first: three times
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
  // Magazines of the first size still hold objects. All are allocated, so only this CPU's are left.
  std::vector<void*> objects = allocate(cache, 900);
  kmem_update();
  EXPECT_LE(stats_of("kmem_magazine.256").live, others + 2);
  // Freed objects go to large ones, but for those two.
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

// A depot that is partly used in an interval: 40 magazines of 30 are there, and half of the objects
// go out and back.
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
  // 600 objects are twenty magazines, of which the CPU had one or two.
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
  // The interval did not touch the reaped ones: the working set is still enough for the same work.
  const uint64_t slabs = stats_of(used.cache).slabs;
  churn(used.cache, 600);
  EXPECT_EQ(stats_of(used.cache).slabs, slabs);
  // Two intervals without any use: all of it is surplus.
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
  kmem_update();  // all of it idled
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

// All of base_arena, so that only a reap can find more.
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

// Cache, quantum cache and arena are asked on the way down; were each to reap, there would be 64
// tries.
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

// ---- Constructors and destructors under reap.

// An object is full of the magic as long as it is constructed, and its users leave it so.
constexpr size_t kMagicWords = 12;
constexpr uint64_t kMagic = 0x5bd1e9955bd1e995;
struct Object {
  uint64_t words[kMagicWords];
  bool constructed() const {
    return std::all_of(words, words + kMagicWords, [](uint64_t word) { return word == kMagic; });
  }
};

struct Counts {
  std::atomic<int64_t> constructed{0}, destructed{0}, failed{0}, wrong{0};
  std::atomic<uint32_t> calls{0};
  uint32_t fail_every = 0;

  // Fails midway, when half of the object is made.
  static int construct(void* memory, void* data, int) {
    auto& counts = *static_cast<Counts*>(data);
    auto* const object = static_cast<Object*>(memory);
    std::fill_n(object->words, kMagicWords / 2, kMagic);
    if (counts.fail_every && ++counts.calls % counts.fail_every == 0) {
      std::fill_n(object->words, kMagicWords / 2, 0);
      counts.failed++;
      return 1;
    }
    std::fill_n(object->words, kMagicWords, kMagic);
    counts.constructed++;
    return 0;
  }
  static void destruct(void* memory, void* data) {
    auto& counts = *static_cast<Counts*>(data);
    auto* const object = static_cast<Object*>(memory);
    if (!object->constructed()) counts.wrong++;
    std::fill_n(object->words, kMagicWords, 0xdead);
    counts.destructed++;
  }
  kmem_cache* make(const char* name) {
    return kmem_cache_create(name, sizeof(Object), 0, 0, nullptr, construct, destruct, this);
  }
  // At rest: what is constructed is out of the slabs, and nothing else.
  void expect_balanced(kmem_cache* cache, uint64_t live) {
    ASSERT_NO_FATAL_FAILURE(expect_sound(cache, live));
    EXPECT_EQ(constructed - destructed, static_cast<int64_t>(stats_of(cache).objects_out));
    EXPECT_EQ(wrong, 0);
  }
};

TEST_F(Depot, ReapedObjectsAreDestructedOnceAndMadeAnew) {
  Counts counts;
  kmem_cache* const cache = counts.make("counted");
  for (int round = 1; round <= 5; round++) {
    std::vector<void*> objects = allocate(cache, 500);
    for (void* object : objects) EXPECT_TRUE(static_cast<Object*>(object)->constructed());
    EXPECT_EQ(counts.constructed, round * 500) << "after a reap there are none";
    counts.expect_balanced(cache, 500);
    free_all(cache, objects);
    churn(cache, 500);
    EXPECT_EQ(counts.constructed, round * 500) << "without one they are kept";
    EXPECT_EQ(counts.destructed, (round - 1) * 500);
    kmem_reap();
    EXPECT_EQ(counts.destructed, round * 500);
    counts.expect_balanced(cache, 0);
  }
  kmem_cache_destroy(cache);
  EXPECT_EQ(counts.constructed, counts.destructed);
}

TEST_F(Depot, AConstructorThatFailsMidwayLeavesNothingToDestruct) {
  Counts counts;
  counts.fail_every = 3;
  kmem_cache* const cache = counts.make("failing");
  std::vector<void*> objects;
  for (int i = 0; i < 900; i++) {
    if (void* const object = kmem_cache_alloc(cache, i % 2 ? KM_ATOMIC : KM_SLEEP))
      objects.push_back(object);
  }
  EXPECT_EQ(objects.size(), 600u);
  EXPECT_EQ(counts.failed, 300);
  EXPECT_EQ(stats_of(cache).failures, 300u);
  counts.expect_balanced(cache, 600);
  free_all(cache, objects);
  kmem_reap();
  counts.expect_balanced(cache, 0);
  kmem_cache_destroy(cache);
  EXPECT_EQ(counts.constructed, counts.destructed);
}

// CPUs and interrupts use a cache while one CPU reaps and updates.
struct Stage {
  Counts counts;
  kmem_cache* cache = nullptr;
  std::array<std::atomic<Object*>, 64> exchange{};
  std::atomic<int64_t> live{0};

  Object* take() {
    auto* const object = static_cast<Object*>(kmem_cache_alloc(cache, KM_ATOMIC));
    if (!object) return nullptr;
    live++;
    if (!object->constructed()) counts.wrong++;
    object->words[3] = 1;  // in use
    return object;
  }
  void give(Object* object) {
    if (!object) return;
    if (object->words[3] != 1) counts.wrong++;
    object->words[3] = kMagic;
    live--;
    kmem_cache_free(cache, object);
  }
  void exchange_one(unsigned random) {
    give(exchange[random % 64].exchange(random % 3 ? take() : nullptr));
  }
};
Stage* stage;

void on_interrupt() {
  thread_local std::minstd_rand random(host_cpu.id + 5);
  for (int i = 0; i < 4; i++) stage->exchange_one(random());
}

void use(unsigned cpu, int operations) {
  std::mt19937 random(cpu);
  std::vector<Object*> mine;
  for (int i = 0; i < operations; i++) {
    if (random() % 600 >= mine.size()) {
      if (Object* const object = stage->take()) mine.push_back(object);
    } else {
      std::swap(mine[random() % mine.size()], mine.back());
      stage->give(mine.back());
      mine.pop_back();
    }
    if (i % 8 == 0) stage->exchange_one(random());
  }
  for (Object* object : mine) stage->give(object);
}

class Reaping : public Depot {
 protected:
  void SetUp() override {
    stage = new Stage;
    stage->cache = stage->counts.make("staged");
  }
  void TearDown() override {
    for (auto& slot : stage->exchange) stage->give(slot.exchange(nullptr));
    kmem_reap();
    stage->counts.expect_balanced(stage->cache, 0);
    EXPECT_EQ(stats_of(stage->cache).slabs, 0u);
    kmem_cache_destroy(stage->cache);
    EXPECT_EQ(stage->counts.constructed, stage->counts.destructed);
    delete stage;
    Depot::TearDown();
  }
};

TEST_F(Reaping, OnAnotherCpuLosesNothing) {
  for (uint32_t fail_every : {0u, 7u, 2u}) {
    stage->counts.fail_every = fail_every;
    host::run_cpus(
        kCpus,
        [](unsigned cpu) {
          if (cpu > 0) return use(cpu, 8'000);
          for (int i = 0; i < 60; i++) {
            kmem_reap_some(static_cast<kmem_reap_extent>(i % 3));
            kmem_update();
            use(0, 30);
          }
        },
        on_interrupt);
    ASSERT_NO_FATAL_FAILURE(stage->counts.expect_balanced(stage->cache, stage->live));
  }
  EXPECT_GT(stats_of(stage->cache).depot_reaped, 0u);
}

TEST_F(Reaping, MagazinesGrowUnderwayAndMemoryFails) {
  host::contend(20);
  host::fail_pages(40);
  host::run_cpus(
      kCpus,
      [](unsigned cpu) {
        if (cpu > 0) return use(cpu, 8'000);
        for (int i = 0; i < 40; i++) {
          use(0, 100);
          kmem_update();
          if (i % 8 == 0) kmem_reap();
        }
      },
      on_interrupt);
  host::contend(0);
  host::fail_pages(0);
  ASSERT_NO_FATAL_FAILURE(stage->counts.expect_balanced(stage->cache, stage->live));
  EXPECT_EQ(stats_of(stage->cache).magazine_size, 62u);
}

TEST_F(Reaping, ACacheMayBeDestroyedMeanwhile) {
  constexpr int kBrief = 25;
  std::atomic<bool> done{false};
  Counts counts;
  host::run_cpus(
      kCpus,
      [&](unsigned cpu) {
        if (cpu == 0) {
          for (int i = 0; i < kBrief; i++) {
            kmem_cache* const cache = counts.make("brief");
            churn(cache, 700);
            kmem_cache_destroy(cache);
          }
          done = true;
        } else if (cpu == 1) {
          use(1, 4'000);
        } else {
          while (!done) kmem_reap_some(cpu == 2 ? KMEM_REAP_DEPOTS : KMEM_REAP_ALL);
        }
      },
      on_interrupt);
  // The log is empty: none had live objects. Objects that a reap still held when its cache ended
  // are freed by now, or by the next update.
  kmem_update();
  EXPECT_EQ(kmem_cache_find("brief"), nullptr);
  EXPECT_EQ(counts.constructed, counts.destructed);
  EXPECT_EQ(counts.constructed, kBrief * 700);
  EXPECT_EQ(counts.wrong, 0);
}

// One CPU is in the middle of a reap, in a destructor, while another destroys the cache.
struct Held {
  std::atomic<bool> inside{false}, destroyed{false};
  std::atomic<int> destructed{0};
};
void destruct_slowly(void*, void* data) {
  auto& held = *static_cast<Held*>(data);
  if (host_cpu.id == 1 && !held.inside.exchange(true)) {
    while (!held.destroyed) sched_yield();
  }
  held.destructed++;
}

TEST_F(Depot, ObjectsInTheHandsOfAReapAreNotLive) {
  Held held;
  kmem_cache* const cache =
      kmem_cache_create("in_hand", 64, 0, 0, nullptr, nullptr, destruct_slowly, &held);
  churn(cache, 100);
  host::run_cpus(2, [&](unsigned cpu) {
    if (cpu == 1) return kmem_reap_some(KMEM_REAP_DEPOTS);
    while (!held.inside) sched_yield();
    kmem_cache_destroy(cache);
    EXPECT_LT(held.destructed, 100);
    held.destroyed = true;
  });
  EXPECT_EQ(held.destructed, 100);
  kmem_update();  // buries it
  EXPECT_EQ(kmem_cache_find("in_hand"), nullptr);
}

}  // namespace
