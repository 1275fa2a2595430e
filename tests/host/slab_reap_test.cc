// Tests of reaping. Constructors and destructors are called correctly, also while another CPU reaps
// the cache. A cache may be destroyed while another CPU reaps it.
#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <random>
#include <vector>

#include "slab_depot_world.h"

namespace {

constexpr unsigned kCpus = 4;

// Each word of a constructed object is kMagic. A user may change words while it has the object, and
// restores them before it frees the object.
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

  // If `fail_every` is not 0, each fail_every-th call fails after it has written half of the
  // object.
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
  // Call while no CPU uses the cache. Checks that `live` objects are allocated, and that as many
  // objects are constructed as are allocated or in magazines.
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

// The state of the tests of class Reaping, in which CPUs and interrupts use a cache while a CPU
// reaps.
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
    object->words[3] = 1;  // the object is in use
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
  // No destroyed cache had live objects, so nothing may have been logged. TearDown() checks this. A
  // cache may have been destroyed while a reap had some of its objects. kmem_update() frees such a
  // cache, if nothing has freed it before.
  kmem_update();
  EXPECT_EQ(kmem_cache_find("brief"), nullptr);
  EXPECT_EQ(counts.constructed, counts.destructed);
  EXPECT_EQ(counts.constructed, kBrief * 700);
  EXPECT_EQ(counts.wrong, 0);
}

// The state of ObjectsInTheHandsOfAReapAreNotLive: CPU 1 reaps, and waits in the destructor of an
// object until CPU 0 has destroyed the cache.
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
  kmem_update();  // frees the destroyed cache
  EXPECT_EQ(kmem_cache_find("in_hand"), nullptr);
}

}  // namespace
