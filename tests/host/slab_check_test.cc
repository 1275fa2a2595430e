// Sources: kern/src/slab.c kern/src/slab_magazine.c kern/src/slab_depot.c kern/src/slab_layer.c kern/src/slab_check.c
// kern/src/slab_check_report.c kern/src/arena.cc kern/src/arena_segments.cc kern/src/arena_tags.cc
// kern/src/arena_xalloc.cc kern/src/pages.cc kern/src/kmalloc.cc kern/lib/format.cc tests/host/cpus/cpus.cc
// The C++ library goes first: kernel headers take the names of error numbers away from its macros.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "arena.h"
#include "cpus.h"
#include "kmalloc.h"
#include "slab.h"
#include "slab_os.h"
#include "slab_trace.h"

namespace {

using testing::AssertionFailure;
using testing::AssertionResult;
using testing::AssertionSuccess;

class World : public testing::Environment {
  void SetUp() override { host::memory_start(64 << 20); }
};
const auto* const world = testing::AddGlobalTestEnvironment(new World);

// ---- The hooks: which objects have a record.

std::mutex records_mutex;
std::set<const void*> records;
std::atomic<uint64_t> twice{0}, unmatched{0};

}  // namespace

void* slab_trace_alloc(kmem_cache*, void* object, size_t, const void*, uint64_t saved) {
  {
    std::lock_guard guard(records_mutex);
    if (!records.insert(object).second) twice++;
  }
  slab_os_irq_restore(saved);
  return object;
}
void slab_trace_free(kmem_cache*, void* object, uint64_t saved) {
  {
    std::lock_guard guard(records_mutex);
    if (records.erase(object) == 0) unmatched++;
  }
  slab_os_irq_restore(saved);
}
void slab_trace_mourn(kmem_cache*, uint64_t) {}
void slab_trace_destroy(kmem_cache*) {}

namespace {

struct kmem_cache_stats stats_of(kmem_cache* cache) {
  struct kmem_cache_stats stats;
  kmem_cache_stats(cache, &stats);
  return stats;
}

// All that must be true of a cache at rest with `live` objects.
AssertionResult sound(kmem_cache* cache, uint64_t live) {
  if (const char* const wrong = kmem_cache_verify(cache)) return AssertionFailure() << wrong;
  const struct kmem_cache_stats stats = stats_of(cache);
  if (stats.live != live) return AssertionFailure() << stats.live << " objects are live, not " << live;
  if (stats.objects_out != live + stats.magazine_rounds)
    return AssertionFailure() << stats.objects_out << " objects are out, " << stats.magazine_rounds << " in magazines";
  return AssertionSuccess();
}

uint64_t memory_out() {
  struct arena_stats base;
  arena_stats(base_arena, &base);
  return base.allocated_bytes;
}

// What was logged since the last look has all of `parts`, in this order.
AssertionResult said(std::initializer_list<const char*> parts) {
  const std::string log = host::take_log();
  size_t at = 0;
  for (const char* part : parts) {
    at = log.find(part, at);
    if (at == log.npos) return AssertionFailure() << "no \"" << part << "\" (in this order) in\n" << log;
  }
  return AssertionSuccess();
}
AssertionResult said_nothing() {
  const std::string log = host::take_log();
  return log.empty() ? AssertionSuccess() : AssertionFailure() << log;
}

struct Shape {
  size_t size, align;
  int flags;
  bool constructed;
};

void PrintTo(const Shape& shape, std::ostream* out) {
  *out << shape.size << " bytes, align " << shape.align << ", flags " << shape.flags;
}

std::atomic<int64_t> constructed{0}, broken{0};

// Objects are full of 0x5a between construction and destruction.
int construct(void* object, void* size, int) {
  memset(object, 0x5a, reinterpret_cast<size_t>(size));
  constructed++;
  return 0;
}
void destruct(void* object, void* size) {
  const auto* const bytes = static_cast<unsigned char*>(object);
  const auto wrong = [](unsigned char byte) { return byte != 0x5a; };
  if (std::any_of(bytes, bytes + reinterpret_cast<size_t>(size), wrong)) broken++;
  constructed--;
}

kmem_cache* make_cache(const Shape& shape, arena* source = nullptr) {
  return kmem_cache_create("victim", shape.size, shape.align, shape.flags, source,
                           shape.constructed ? construct : nullptr, shape.constructed ? destruct : nullptr,
                           reinterpret_cast<void*>(shape.size));
}

class Check : public testing::TestWithParam<Shape> {
 protected:
  void SetUp() override {
    kmem_reap();
    host::take_log();
    constructed = broken = 0;
    cache_ = make_cache(GetParam());
    ASSERT_NE(cache_, nullptr);
    kmem_cache_check_start(cache_);
  }
  void TearDown() override {
    kmem_cache_destroy(cache_);
    EXPECT_EQ(constructed, 0);
  }

  unsigned char* alloc(unsigned place) {
    host_cpu.place = place;
    return static_cast<unsigned char*>(kmem_cache_alloc(cache_, KM_ATOMIC));
  }
  void free(void* object, unsigned place) {
    host_cpu.place = place;
    kmem_cache_free(cache_, object);
  }
  // Nobody gets `object` any more, however many are allocated.
  AssertionResult quarantined(const void* object) {
    const uint64_t live = stats_of(cache_).live;
    if (stats_of(cache_).quarantined != 1) return AssertionFailure() << stats_of(cache_).quarantined << " quarantined";
    std::vector<void*> objects(300);
    for (void*& other : objects) other = alloc(1);
    const bool again = std::find(objects.begin(), objects.end(), object) != objects.end();
    for (void* other : objects) free(other, 1);
    if (again) return AssertionFailure() << "it was allocated again";
    return sound(cache_, live);
  }

  kmem_cache* cache_ = nullptr;
};

TEST_P(Check, WriteOneByteFarIsReportedWithBothPlaces) {
  auto* const object = alloc(11);
  const size_t size = GetParam().size;
  object[size] = 'A';
  free(object, 12);
  EXPECT_TRUE(said({"write past the end of an object, victim", "41", "|", "allocated at place 11",
                    "found as it was freed at place 12", "nobody gets the object again"}));
  EXPECT_EQ(stats_of(cache_).reports, 1u);
  EXPECT_TRUE(quarantined(object));
  EXPECT_TRUE(said_nothing());
}

TEST_P(Check, WhatWasNotAskedForIsRedZone) {
  const size_t size = GetParam().size;
  host_cpu.place = 11;
  auto* object = static_cast<unsigned char*>(kmem_cache_alloc_sized(cache_, size / 2, KM_ATOMIC));
  object[size / 2]++;
  free(object, 12);
  const std::string asked = std::to_string(size) + " bytes, " + std::to_string(size / 2) + " asked for";
  const std::string where = "byte +" + std::to_string(size / 2) + " is";
  EXPECT_TRUE(said({"write past the end", asked.c_str(), where.c_str(), "place 11", "place 12"}));
  // All that was asked for may be written.
  object = static_cast<unsigned char*>(kmem_cache_alloc_sized(cache_, size / 2, KM_ATOMIC));
  memset(object, 0x5a, size / 2);
  kmem_cache_check_scan(cache_);
  memset(object, 0x5a, size);
  EXPECT_EQ(kmem_cache_check_scan(cache_), size > size / 2 ? 1u : 0u);
  free(object, 12);
  EXPECT_TRUE(said({"found in a scan"}));
  EXPECT_EQ(stats_of(cache_).quarantined, 2u);
}

TEST_P(Check, WriteOverTheAuditIsReported) {
  auto* const object = alloc(11);
  memset(object + GetParam().size, 0x41, 24 + GetParam().align);
  free(object, 12);
  EXPECT_TRUE(said({"past the end of an object", "41", "found as it was freed at place 12"}));
  free(object, 13);
  EXPECT_TRUE(said({"double free", "freed again at place 13"}));
  EXPECT_TRUE(quarantined(object));
}

TEST_P(Check, WriteBeforeIsReportedOnce) {
  std::vector<unsigned char*> objects(8);
  for (auto*& object : objects) object = alloc(11);
  // With a large alignment there is no room before the first object of a slab.
  auto* const object = *std::max_element(objects.begin(), objects.end());
  object[-1] = 'A';
  EXPECT_EQ(kmem_cache_check_scan(cache_), 1u);
  EXPECT_TRUE(said({"write before the start", "byte -1 is", "41", "allocated at place 11", "found in a scan"}));
  EXPECT_EQ(kmem_cache_check_scan(cache_), 0u);
  for (auto* other : objects) free(other, 12);
  EXPECT_TRUE(said_nothing());
  EXPECT_TRUE(quarantined(object));
}

TEST_P(Check, WriteAfterFreeIsFoundByAScan) {
  auto* const object = alloc(11);
  free(object, 12);
  object[GetParam().size / 2] ^= 1;
  host_cpu.place = 13;
  EXPECT_EQ(kmem_cache_check_scan(cache_), 1u);
  EXPECT_TRUE(said(
      {"write to a free object, victim", "allocated at place 11", "freed at place 12", "found in a scan at place 13"}));
  EXPECT_EQ(kmem_cache_check_scan(cache_), 0u);
  EXPECT_TRUE(quarantined(object));
}

TEST_P(Check, WriteAfterFreeIsFoundByTheNextWhoWouldGetIt) {
  auto* const object = alloc(11);
  free(object, 12);
  object[0] ^= 1;
  std::vector<void*> objects;
  for (int i = 0; i < 300; i++) objects.push_back(alloc(13));
  EXPECT_TRUE(said({"write to a free object, victim", "allocated at place 11", "freed at place 12",
                    "found as it was to be allocated again at place 13"}));
  for (void* other : objects) free(other, 14);
  EXPECT_TRUE(quarantined(object));
}

TEST_P(Check, WriteAfterFreeIsFoundWhenTheSlabIsGivenBack) {
  std::vector<unsigned char*> objects;
  for (int i = 0; i < 300; i++) objects.push_back(alloc(11));
  for (int i = 0; i < 200; i++) free(objects[i], 12);
  // Of the first slab, which has gone if it was empty: so of one in which an object is still out.
  objects[199][0] ^= 1;
  for (int i = 200; i < 300; i++) free(objects[i], 12);
  EXPECT_EQ(stats_of(cache_).reports + kmem_cache_check_scan(cache_), 1u);
  EXPECT_TRUE(said({"write to a free object, victim", "allocated at place 11", "freed at place 12", "found"}));
  EXPECT_TRUE(quarantined(objects[199]));
}

TEST_P(Check, DoubleFreeIsReportedAndNotCounted) {
  auto* const object = alloc(11);
  auto* const other = alloc(1);
  free(object, 12);
  free(object, 13);
  EXPECT_TRUE(said({"double free, victim", "allocated at place 11", "freed at place 12", "freed again at place 13"}));
  EXPECT_TRUE(sound(cache_, 1));
  free(object, 14);
  EXPECT_TRUE(said({"double free, victim", "freed again at place 14"}));
  free(other, 1);
  EXPECT_TRUE(quarantined(object));
}

TEST_P(Check, FreeOfWhatIsNoObjectIsRefused) {
  auto* const object = alloc(11);
  free(object + 1, 12);
  EXPECT_TRUE(said({"free of what is no object, victim", "1 bytes into the object", "allocated at place 11",
                    "freed at place 12", "nothing is freed"}));
  int nowhere;
  free(&nowhere, 12);
  EXPECT_TRUE(said({"free of what is no object, victim", "has no object there"}));
  EXPECT_TRUE(sound(cache_, 1));
  free(object, 1);
  EXPECT_TRUE(sound(cache_, 0));
  EXPECT_TRUE(said_nothing());
}

TEST_P(Check, FreeToAnotherCheckedCacheIsRefused) {
  kmem_cache* const other = kmem_cache_create("other", 40, 0, 0, nullptr, nullptr, nullptr, nullptr);
  kmem_cache_check_start(other);
  auto* const object = alloc(11);
  host_cpu.place = 12;
  kmem_cache_free(other, object);
  EXPECT_TRUE(said({"free to the wrong cache, victim", "it is given to other", "allocated at place 11",
                    "freed at place 12", "stays allocated"}));
  EXPECT_TRUE(sound(other, 0));
  EXPECT_TRUE(sound(cache_, 1));
  free(object, 1);
  EXPECT_TRUE(sound(cache_, 0));
  EXPECT_TRUE(said_nothing());
  kmem_cache_destroy(other);
}

TEST_P(Check, UncheckedObjectFreedToACheckedCacheIsRefused) {
  kmem_cache* const other = kmem_cache_create("other", 40, 0, 0, nullptr, nullptr, nullptr, nullptr);
  void* const object = kmem_cache_alloc(other, KM_ATOMIC);
  free(object, 12);
  EXPECT_TRUE(said({"free to the wrong cache, other", "not checked: who allocated it is not known",
                    "it is given to victim", "freed at place 12"}));
  EXPECT_TRUE(sound(cache_, 0));
  kmem_cache_free(other, object);
  EXPECT_TRUE(sound(other, 0));
  kmem_cache_destroy(other);
}

TEST_P(Check, DoubleFreeOfAnObjectFromBeforeIsRefused) {
  kmem_cache_check_stop(cache_);
  auto* const object = alloc(11);
  auto* const other = alloc(11);
  kmem_cache_check_start(cache_);
  free(object, 12);
  EXPECT_TRUE(said_nothing());
  free(object, 13);
  EXPECT_TRUE(said({"double free, victim", "not checked: who allocated it is not known", "freed again at place 13",
                    "the object stays free"}));
  EXPECT_TRUE(sound(cache_, 1));
  free(other, 12);
  EXPECT_TRUE(sound(cache_, 0));
  EXPECT_TRUE(said_nothing());
}

// Of what a cache that is not checked finds by itself, it dies; and says how to find out more.
TEST_P(Check, WithoutCheckingTheMessageNamesTheWord) {
  kmem_cache_check_stop(cache_);
  kmem_cache* const other = kmem_cache_create("other", 40, 0, KMC_NOMAGAZINE, nullptr, nullptr, nullptr, nullptr);
  auto* const object = alloc(11);
  EXPECT_DEATH(kmem_cache_free(other, object), "other: .* was freed to it, but belongs to victim. `check` in #mem");
  free(object, 12);
  kmem_cache_destroy(other);
}

TEST_P(Check, FreeToAnUncheckedCacheIsFoundWhenItsMagazineIsEmptied) {
  kmem_cache* const other = kmem_cache_create("other", 40, 0, 0, nullptr, nullptr, nullptr, nullptr);
  auto* const object = alloc(11);
  kmem_cache_free(other, object);
  EXPECT_TRUE(said_nothing());
  kmem_cache_check_start(other);  // among others, this empties magazines
  EXPECT_TRUE(said({"free to the wrong cache, victim", "it is given to other", "allocated at place 11",
                    "found as a magazine was emptied"}));
  EXPECT_TRUE(sound(other, 0));
  EXPECT_TRUE(sound(cache_, 1));
  free(object, 1);
  kmem_cache_destroy(other);
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
  // Checked ones are still checked.
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
      ASSERT_TRUE(std::all_of(object, object + GetParam().size, [&](unsigned char byte) { return byte == salt; }));
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

// A source that switches checking off while a slab is being made.
kmem_cache* switched = nullptr;
void* import_and_switch(arena* source, size_t size, int flags) {
  if (stats_of(switched).checked) kmem_cache_check_stop(switched);
  return arena_alloc(source, size, flags);
}

TEST_P(Check, SwitchedOffWhileASlabIsBeingMadeItIsNotUsed) {
  arena* const source =
      arena_create("switching", 0, 0, SLAB_OS_PAGE_SIZE, import_and_switch, arena_free, page_arena, 0, KM_SLEEP);
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
    // What the allocator's own caches keep for themselves is in place after a few rounds.
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
    kmem_cache_destroy(cache);  // a zombie, until the rest has come back
    for (int i = 150; i < 200; i++) kmem_cache_free(cache, objects[i]);
    kmem_reap();
  }
  EXPECT_LE(memory_out(), before + 2 * SLAB_OS_PAGE_SIZE);
  host::take_log();
}

// What the CPUs of the next test share.
struct Load {
  kmem_cache* cache;
  std::atomic<unsigned char*> exchange[16] = {};
  std::atomic<int64_t> live{0};
  unsigned char* swap(unsigned i, unsigned char* object) { return exchange[i % 16].exchange(object); }
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

// CPUs and interrupts allocate, pass on and free, while one CPU switches and scans.
TEST_P(Check, SwitchesUnderLoad) {
  Load here;
  here.cache = cache_;
  load = &here;
  twice = unmatched = 0;
  kmem_cache_check_stop(cache_);
  slab_os_on_each_cpu(
      [](void* cache) { kmem_cache_cpu_flags(static_cast<kmem_cache*>(cache), KMC_TRACED | KMC_EVER_TRACED, 0); },
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
          if (object && !GetParam().constructed) memset(object, static_cast<int>(i), GetParam().size);
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
  // Each record was made once and dropped once.
  EXPECT_EQ(twice + unmatched, 0u);
  EXPECT_TRUE(records.empty());
}

INSTANTIATE_TEST_SUITE_P(All, Check,
                         testing::Values(Shape{24, 0, 0, false}, Shape{64, 64, 0, false}, Shape{100, 16, 0, true},
                                         Shape{512, 0, 0, false}, Shape{1024, 0, 0, false}, Shape{1500, 128, 0, true},
                                         Shape{4096, 4096, 0, false}, Shape{5000, 0, 0, true},
                                         Shape{64, 0, KMC_NOMAGAZINE, false}),
                         [](const auto& info) {
                           return std::to_string(info.param.size) + "_" + std::to_string(info.param.align) + "_" +
                                  std::to_string(info.param.flags);
                         });

// Of those who free one object at once only one does.
TEST(CheckRace, OneOfManyFreesIsTheFree) {
  kmem_cache* const cache = make_cache({64, 0, 0, false});
  kmem_cache_check_start(cache);
  constexpr int kRounds = 200;
  std::vector<void*> objects(kRounds), others(kRounds);  // the others keep the slabs
  for (int i = 0; i < kRounds; i++) {
    objects[i] = kmem_cache_alloc(cache, KM_ATOMIC);
    others[i] = kmem_cache_alloc(cache, KM_ATOMIC);
  }
  host::run_cpus(4, [&](unsigned) {
    for (void* object : objects) kmem_cache_free(cache, object);
  });
  EXPECT_EQ(stats_of(cache).reports, 3u * kRounds);
  EXPECT_EQ(stats_of(cache).quarantined, 0u + kRounds);
  for (void* object : others) kmem_cache_free(cache, object);
  EXPECT_TRUE(sound(cache, 0));
  // Most were only counted.
  const std::string log = host::take_log();
  EXPECT_NE(log.find("are only counted"), log.npos);
  EXPECT_LT(std::count(log.begin(), log.end(), '\n'), 100 * 10);
  kmem_cache_destroy(cache);
}

// A destructor that frees its object: the one free is on its way while the other comes.
TEST(CheckRace, AFreeDuringTheFreeIsADoubleFree) {
  static kmem_cache* cache;
  const auto destructor = [](void* object, void*) {
    host_cpu.place = 13;
    kmem_cache_free(cache, object);
  };
  cache = kmem_cache_create("suicidal", 64, 0, 0, nullptr, nullptr, destructor, nullptr);
  kmem_cache_check_start(cache);
  host_cpu.place = 11;
  void* const object = kmem_cache_alloc(cache, KM_ATOMIC);
  host_cpu.place = 12;
  kmem_cache_free(cache, object);
  EXPECT_TRUE(said({"double free", "allocated at place 11", "freed at place 12", "freed again at place 13"}));
  EXPECT_EQ(stats_of(cache).quarantined, 1u);
  EXPECT_TRUE(sound(cache, 0));
  kmem_cache_destroy(cache);
}

TEST(CheckKmalloc, BytesBeyondTheRequestAreRedZone) {
  auto* object = static_cast<unsigned char*>(kmalloc(1, KM_SLEEP));
  kmem_cache* const cache = kmem_cache_find("kmalloc_64");
  ASSERT_NE(cache, nullptr);
  kfree(object);
  kmem_cache_check_start(cache);
  object = static_cast<unsigned char*>(kmalloc(50, KM_ZERO));
  ASSERT_EQ(kmem_cache_of(object), cache);
  EXPECT_EQ(kmalloc_usable_size(object), 50u);
  EXPECT_TRUE(std::all_of(object, object + 50, [](unsigned char byte) { return byte == 0; }));
  kfree(object);
  EXPECT_TRUE(said_nothing());
  host_cpu.place = 11;
  object = static_cast<unsigned char*>(kmalloc(50, KM_SLEEP));
  object[50] = 0;
  host_cpu.place = 12;
  kfree(object);
  EXPECT_TRUE(said({"write past the end of an object, kmalloc_64", "64 bytes, 50 asked for", "byte +50 is",
                    "allocated at place 11", "freed at place 12"}));
  kmem_cache_check_stop(cache);
  kmem_cache_release(cache);
}

TEST(CheckNewCaches, AreCheckedFromTheirFirstObjectIfTheSystemSaysSo) {
  host::check_new_caches(true);
  kmem_cache* const cache = make_cache({64, 0, 0, false});
  kmem_cache* const untouched = make_cache({64, 0, KMC_NOTOUCH, false});
  kmem_cache* const untraced = make_cache({64, 0, KMC_NOTRACE, false});
  host::check_new_caches(false);
  EXPECT_EQ(stats_of(cache).checked, 1u);
  EXPECT_EQ(stats_of(untouched).checked, 0u);
  EXPECT_EQ(stats_of(untraced).checked, 0u);
  void* const object = kmem_cache_alloc(cache, KM_ATOMIC);
  kmem_cache_free(cache, object);
  kmem_cache_free(cache, object);
  EXPECT_TRUE(said({"double free"}));
  for (kmem_cache* each : {cache, untouched, untraced}) kmem_cache_destroy(each);
}

}  // namespace
