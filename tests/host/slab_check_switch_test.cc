// Switches the checking of a cache on and off: while objects are allocated, while requests for slab
// memory fail, and while several CPUs use the cache.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <random>
#include <utility>
#include <vector>

#include "arena.h"
#include "cpus.h"
#include "slab.h"
#include "slab_check_world.h"
#include "slab_os.h"
#include "slab_trace.h"

namespace {

using host::broken;
using host::Check;
using host::make_cache;
using host::said;
using host::said_nothing;
using host::sound;
using host::stats_of;
using host::twice;
using host::unmatched;

uint64_t memory_out() {
  struct arena_stats base;
  arena_stats(base_arena, &base);
  return base.allocated_bytes;
}

TEST_P(Check, ObjectsFromBeforeAndAfterGoBackToTheirSlabs) {
  std::vector<unsigned char*> objects;
  const auto allocate = [&](int count) {
    for (int i = 0; i < count; i++) objects.push_back(alloc(1));
  };
  std::mt19937 random(1);
  const auto free_half = [&] {
    std::shuffle(objects.begin(), objects.end(), random);
    for (size_t n = objects.size() / 2; objects.size() > n; objects.pop_back()) {
      if (!GetParam().constructed) memset(objects.back(), 0x77, GetParam().size);
      free(objects.back(), 2);
    }
  };
  for (int round = 0; round < 5; round++) {
    allocate(200);
    kmem_cache_check_stop(cache_);
    EXPECT_EQ(stats_of(cache_).checked, 0u);
    free_half();
    allocate(200);
    EXPECT_TRUE(sound(cache_, objects.size()));
    kmem_cache_check_start(cache_);
    EXPECT_EQ(stats_of(cache_).checked, 1u);
    EXPECT_EQ(stats_of(cache_).magazine_rounds, 0u);
    free_half();
    EXPECT_TRUE(sound(cache_, objects.size()));
  }
  kmem_cache_check_stop(cache_);
  // Objects that were allocated while checking was on are still checked.
  ASSERT_GT(stats_of(cache_).checked_out, 0u);
  EXPECT_TRUE(said_nothing());
  while (!objects.empty()) {
    free(objects.back(), 3);
    objects.pop_back();
  }
  EXPECT_TRUE(sound(cache_, 0));
  EXPECT_EQ(stats_of(cache_).checked_out, 0u);
  EXPECT_EQ(kmem_cache_flags(cache_) & KMC_CHECKED, KMC_CHECKED);
  kmem_cache_check_stop(cache_);
  EXPECT_EQ(kmem_cache_flags(cache_) & KMC_CHECKED, 0);
  if (!(GetParam().flags & KMC_NOMAGAZINE)) {
    EXPECT_GT(stats_of(cache_).magazine_size, 0u);
    free(alloc(1), 1);
    EXPECT_GT(stats_of(cache_).magazine_rounds, 0u);
  }
  EXPECT_TRUE(said_nothing());
  EXPECT_EQ(broken, 0);
}

TEST_P(Check, CrimesAfterSwitchingOffAreFound) {
  auto* const object = alloc(11);
  auto* const twice_freed = alloc(11);
  kmem_cache_check_stop(cache_);
  object[GetParam().size] = 'A';
  free(object, 12);
  EXPECT_TRUE(said({"write past the end", "place 11", "place 12"}));
  free(twice_freed, 13);
  free(twice_freed, 14);
  EXPECT_TRUE(said({"double free", "place 11", "freed at place 13", "freed again at place 14"}));
  EXPECT_TRUE(sound(cache_, 0));
}

TEST_P(Check, KeepsAlignmentAndContents) {
  std::mt19937 random(2);
  std::vector<std::pair<unsigned char*, unsigned char>> objects;
  host::fail_pages(30);
  for (int i = 0; i < 20'000; i++) {
    if (objects.size() < random() % 400) {
      auto* const object = alloc(1);
      if (!object) continue;
      ASSERT_EQ(reinterpret_cast<uintptr_t>(object) % std::max<size_t>(GetParam().align, 8), 0u);
      ASSERT_EQ(kmem_cache_of(object), cache_);
      const auto salt = static_cast<unsigned char>(GetParam().constructed ? 0x5a : random());
      memset(object, salt, GetParam().size);
      objects.emplace_back(object, salt);
    } else if (!objects.empty()) {
      std::swap(objects[random() % objects.size()], objects.back());
      const auto [object, salt] = objects.back();
      objects.pop_back();
      ASSERT_TRUE(std::all_of(object, object + GetParam().size,
                              [&](unsigned char byte) { return byte == salt; }));
      free(object, 2);
    }
  }
  host::fail_pages(0);
  EXPECT_TRUE(sound(cache_, objects.size()));
  EXPECT_EQ(kmem_cache_check_scan(cache_), 0u);
  for (const auto& [object, salt] : objects) free(object, 2);
  EXPECT_TRUE(sound(cache_, 0));
  EXPECT_EQ(broken, 0);
  EXPECT_TRUE(said_nothing());
}

TEST_P(Check, NothingIsLeftOfCheckedSlabsAfterwards) {
  std::vector<void*> objects(100);
  for (void*& object : objects) object = alloc(1);
  EXPECT_EQ(kmem_cache_check_scan(cache_), 0u);
  for (void* object : objects) free(object, 1);
  kmem_cache_check_stop(cache_);
  EXPECT_EQ(stats_of(cache_).slabs, 0u);
  EXPECT_EQ(stats_of(cache_).total_bytes, 0u);
}

// The import function of an arena. It stops the checking of the cache `switched` while this cache
// gets the memory for a slab.
kmem_cache* switched = nullptr;
void* import_and_switch(arena* source, size_t size, int flags) {
  if (stats_of(switched).checked) kmem_cache_check_stop(switched);
  return arena_alloc(source, size, flags);
}

TEST_P(Check, SwitchedOffWhileASlabIsBeingMadeItIsNotUsed) {
  arena* const source = arena_create("switching", 0, 0, SLAB_OS_PAGE_SIZE, import_and_switch,
                                     arena_free, page_arena, 0, KM_SLEEP);
  kmem_cache* const cache = switched = make_cache(GetParam(), source);
  kmem_cache_check_start(cache);
  void* const object = kmem_cache_alloc(cache, KM_ATOMIC);
  EXPECT_EQ(stats_of(cache).checked_out, 0u);
  EXPECT_EQ(kmem_cache_flags(cache) & KMC_CHECKED, 0);
  EXPECT_TRUE(sound(cache, 1));
  kmem_cache_free(cache, object);
  EXPECT_TRUE(sound(cache, 0));
  EXPECT_TRUE(said_nothing());
  kmem_cache_destroy(cache);
  arena_destroy(source);
}

TEST_P(Check, AllMemoryComesBackWithTheCache) {
  uint64_t before = 0;
  for (int round = 0; round < 12; round++) {
    // From the fifth round on, the allocator's own caches need no more memory.
    if (round == 4) before = memory_out();
    kmem_cache* const cache = make_cache(GetParam(), base_arena);
    std::vector<void*> objects(200);
    for (void*& object : objects) object = kmem_cache_alloc(cache, KM_ATOMIC);
    kmem_cache_check_start(cache);
    for (int i = 0; i < 100; i++) kmem_cache_free(cache, objects[i]);
    for (int i = 0; i < 100; i++) objects[i] = kmem_cache_alloc(cache, KM_ATOMIC);
    kmem_cache_free(cache, objects[0]);
    kmem_cache_free(cache, objects[0]);
    if (round % 2) kmem_cache_check_stop(cache);
    for (int i = 1; i < 150; i++) kmem_cache_free(cache, objects[i]);
    kmem_cache_destroy(cache);  // the cache is a zombie until its last object is freed
    for (int i = 150; i < 200; i++) kmem_cache_free(cache, objects[i]);
    kmem_reap();
  }
  EXPECT_LE(memory_out(), before + 2 * SLAB_OS_PAGE_SIZE);
  host::take_log();
}

// The state that the CPUs of SwitchesUnderLoad share.
struct Load {
  kmem_cache* cache;
  std::atomic<unsigned char*> exchange[16] = {};
  std::atomic<int64_t> live{0};
  unsigned char* swap(unsigned i, unsigned char* object) {
    return exchange[i % 16].exchange(object);
  }
  unsigned char* alloc() {
    auto* const object = static_cast<unsigned char*>(kmem_cache_alloc(cache, KM_ATOMIC));
    if (object) live++;
    return object;
  }
  void free(unsigned char* object) {
    if (object) live--;
    kmem_cache_free(cache, object);
  }
};
Load* load = nullptr;

// Three CPUs and interrupts allocate, exchange and free objects, while a fourth CPU switches
// checking on and off and scans.
TEST_P(Check, SwitchesUnderLoad) {
  Load here;
  here.cache = cache_;
  load = &here;
  twice = unmatched = 0;
  kmem_cache_check_stop(cache_);
  slab_os_on_each_cpu(
      [](void* cache) {
        kmem_cache_cpu_flags(static_cast<kmem_cache*>(cache), KMC_TRACED | KMC_EVER_TRACED, 0);
      },
      cache_);
  std::atomic<unsigned> running{3};
  host::run_cpus(
      4,
      [&](unsigned cpu) {
        if (cpu == 3) {
          for (unsigned i = 0; running > 0; i++) {
            kmem_cache_check_start(cache_);
            EXPECT_EQ(stats_of(cache_).magazine_rounds, 0u);
            if (i % 3 == 0) {
              EXPECT_EQ(kmem_cache_check_scan(cache_), 0u);
            }
            kmem_cache_check_stop(cache_);
            if (i % 5 == 0) kmem_reap();
          }
          return;
        }
        std::mt19937 random(cpu);
        for (int i = 0; i < 6'000; i++) {
          auto* const object = here.alloc();
          if (object && !GetParam().constructed)
            memset(object, static_cast<int>(i), GetParam().size);
          here.free(here.swap(static_cast<unsigned>(random()), object));
        }
        running--;
      },
      [] {
        static thread_local unsigned calls = 0;
        calls++;
        load->free(load->swap(calls, calls % 2 ? load->alloc() : nullptr));
      });
  for (unsigned i = 0; i < 16; i++) here.free(here.swap(i, nullptr));
  EXPECT_EQ(here.live, 0);
  EXPECT_TRUE(sound(cache_, 0));
  EXPECT_TRUE(said_nothing());
  EXPECT_EQ(stats_of(cache_).reports, 0u);
  EXPECT_EQ(broken, 0);
  // The trace hooks were called once for each allocation and once for each free.
  EXPECT_EQ(twice + unmatched, 0u);
  EXPECT_TRUE(host::records() == 0);
}

}  // namespace
