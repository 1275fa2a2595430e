// Caches of all shapes, from their creation to their end.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <random>
#include <set>
#include <vector>

#include "arch/x86_64/interrupts.h"
#include "arch/x86_64/paging.h"
#include "arena.h"
#include "cpus.h"
#include "kmalloc.h"
#include "slab.h"
#include "slab_os.h"
#include "slab_trace.h"
#include "slab_world.h"

namespace {

using host::destroyed;
using host::expect_sound;
using host::Held;
using host::hold;
using host::kMemory;
using host::recorded;
using host::Shape;
using host::stats_of;
using host::take_any;

uint64_t memory_out() {
  struct arena_stats base;
  arena_stats(base_arena, &base);
  return base.allocated_bytes;
}

class SlabShape : public testing::TestWithParam<Shape> {
 protected:
  void SetUp() override {
    kmem_reap();  // empties the magazines that other tests left
    const Shape& shape = GetParam();
    cache_ = kmem_cache_create("shape", shape.size, shape.align, shape.flags, nullptr, nullptr,
                               nullptr, nullptr);
    ASSERT_NE(cache_, nullptr);
  }
  void TearDown() override { kmem_cache_destroy(cache_); }

  // Makes `operations` random allocations and frees, with about `most` objects at a time. Checks
  // the cache after every 997 operations, and the contents of each object before its free.
  // `percent` percent of the requests for slab memory fail.
  void run(unsigned seed, int operations, size_t most, unsigned percent) {
    std::mt19937_64 random(seed);
    std::vector<Held> held;
    uint64_t failed = 0;
    host::fail_pages(percent);
    for (int i = 0; i < operations; i++) {
      if (random() % (2 * most) >= held.size()) {
        void* const object = kmem_cache_alloc(cache_, KM_ATOMIC);
        if (!object) {
          failed++;
          continue;
        }
        ASSERT_EQ(reinterpret_cast<uintptr_t>(object) % std::max<size_t>(GetParam().align, 8), 0u);
        ASSERT_EQ(kmem_cache_of(object), GetParam().flags & KMC_NOTOUCH ? nullptr : cache_);
        held.push_back(hold(object, GetParam().size, random()));
      } else {
        const Held object = take_any(held, random);
        ASSERT_TRUE(object.intact());
        kmem_cache_free(cache_, object.memory);
      }
      if (i % 997 == 0) {
        ASSERT_NO_FATAL_FAILURE(expect_sound(cache_, held.size()));
      }
    }
    host::fail_pages(0);
    ASSERT_EQ(stats_of(cache_).failures, failed);
    if (percent == 0) {
      ASSERT_EQ(failed, 0u);
    }
    ASSERT_NO_FATAL_FAILURE(expect_sound(cache_, held.size()));
    for (const Held& object : held) {
      ASSERT_TRUE(object.intact());
      kmem_cache_free(cache_, object.memory);
    }
    ASSERT_NO_FATAL_FAILURE(expect_sound(cache_, 0));
  }

  kmem_cache* cache_ = nullptr;
};

TEST_P(SlabShape, AgreesWithAModel) {
  run(1, 30'000, 2'000, 0);
}

TEST_P(SlabShape, LosesNothingWhenMemoryFails) {
  run(2, 30'000, 2'000, 70);
}

TEST_P(SlabShape, ObjectsDoNotOverlap) {
  std::vector<uintptr_t> objects(3'000);
  for (uintptr_t& object : objects)
    object = reinterpret_cast<uintptr_t>(kmem_cache_alloc(cache_, KM_ATOMIC));
  std::vector<uintptr_t> sorted = objects;
  std::sort(sorted.begin(), sorted.end());
  ASSERT_NE(sorted[0], 0u);
  for (size_t i = 1; i < sorted.size(); i++) ASSERT_GE(sorted[i] - sorted[i - 1], GetParam().size);
  for (uintptr_t object : objects) kmem_cache_free(cache_, reinterpret_cast<void*>(object));
}

TEST_P(SlabShape, DestructionGivesAllMemoryBack) {
  uint64_t before = 0;
  for (int round = 0; round < 20; round++) {
    // From the fifth round on, the allocator's own caches need no more memory.
    if (round == 4) before = memory_out();
    kmem_cache* const cache =
        kmem_cache_create("short-lived", GetParam().size, GetParam().align, GetParam().flags,
                          base_arena, nullptr, nullptr, nullptr);
    std::vector<void*> objects(2'000);
    for (void*& object : objects) object = kmem_cache_alloc(cache, KM_ATOMIC);
    for (void* object : objects) kmem_cache_free(cache, object);
    kmem_cache_destroy(cache);
  }
  EXPECT_LE(memory_out(), before + 2 * SLAB_OS_PAGE_SIZE);
}

INSTANTIATE_TEST_SUITE_P(All, SlabShape,
                         testing::Values(Shape{1, 0, 0}, Shape{24, 0, 0}, Shape{64, 64, 0},
                                         Shape{100, 16, 0}, Shape{512, 0, 0}, Shape{513, 0, 0},
                                         Shape{1024, 0, 0}, Shape{1500, 128, 0},
                                         Shape{4096, 4096, 0}, Shape{5000, 0, 0},
                                         Shape{64, 0, KMC_NOMAGAZINE},
                                         Shape{1024, 0, KMC_NOMAGAZINE}, Shape{64, 8, KMC_NOTOUCH},
                                         Shape{2048, 8, KMC_NOTOUCH}),
                         [](const auto& info) {
                           return std::to_string(info.param.size) + "_" +
                                  std::to_string(info.param.align) + "_" +
                                  std::to_string(info.param.flags);
                         });

TEST(Slab, HugeObjects) {
  kmem_cache* const cache =
      kmem_cache_create("huge", 100'000, 0, 0, nullptr, nullptr, nullptr, nullptr);
  Held a = hold(kmem_cache_alloc(cache, KM_ATOMIC), 100'000, 1);
  Held b = hold(kmem_cache_alloc(cache, KM_ATOMIC), 100'000, 2);
  EXPECT_TRUE(a.intact() && b.intact());
  kmem_cache_free(cache, a.memory);
  kmem_cache_free(cache, b.memory);
  kmem_cache_destroy(cache);
}

TEST(Slab, UntouchedObjectsAreNeverRead) {
  // No memory is mapped at these addresses. So the test crashes if the allocator reads an object.
  arena* const ids =
      arena_create("ids", 0x1000, 1 << 20, 1, nullptr, nullptr, nullptr, 16, KM_SLEEP);
  std::set<uintptr_t> out;
  for (int i = 0; i < 10'000; i++) {
    void* const id = arena_alloc(ids, 1, KM_ATOMIC);
    ASSERT_TRUE(out.insert(reinterpret_cast<uintptr_t>(id)).second);
  }
  for (uintptr_t id : out) arena_free(ids, reinterpret_cast<void*>(id), 1);
  arena_destroy(ids);
}

TEST(Slab, HashOfBufctlsGrowsAndShrinks) {
  kmem_cache* const cache =
      kmem_cache_create("hashed", 64, 8, KMC_NOTOUCH, nullptr, nullptr, nullptr, nullptr);
  std::vector<void*> objects(60'000);
  for (void*& object : objects) object = kmem_cache_alloc(cache, KM_ATOMIC);
  const struct kmem_cache_stats full = stats_of(cache);
  EXPECT_GE(full.hash_buckets * 2, full.hash_items);
  EXPECT_EQ(full.hash_items, 60'000u);
  for (void* object : objects) kmem_cache_free(cache, object);
  // The freed objects are in magazines now, and so still in the hash. kmem_cache_destroy() must
  // remove each of them from the hash.
  expect_sound(cache, 0);
  kmem_cache_destroy(cache);

  kmem_cache* const direct = kmem_cache_create("hashed", 64, 8, KMC_NOTOUCH | KMC_NOMAGAZINE,
                                               nullptr, nullptr, nullptr, nullptr);
  for (void*& object : objects) object = kmem_cache_alloc(direct, KM_ATOMIC);
  for (void* object : objects) kmem_cache_free(direct, object);
  EXPECT_EQ(stats_of(direct).hash_items, 0u);
  EXPECT_EQ(stats_of(direct).hash_buckets, 16u);
  kmem_cache_destroy(direct);
}

TEST(Slab, ZeroedMeansZeroed) {
  kmem_cache* const cache =
      kmem_cache_create("zeroed", 200, 0, 0, nullptr, nullptr, nullptr, nullptr);
  for (int i = 0; i < 100; i++) {
    auto* const object = static_cast<unsigned char*>(kmem_cache_alloc(cache, KM_ZERO));
    ASSERT_TRUE(std::all_of(object, object + 200, [](unsigned char byte) { return byte == 0; }));
    memset(object, 0xff, 200);
    kmem_cache_free(cache, object);
  }
  kmem_cache_destroy(cache);
}

// ---- Constructors.

struct Construction {
  int64_t constructed = 0, destructed = 0;
  int fail_every = 0;
};

int construct(void* object, void* data, int) {
  auto& counts = *static_cast<Construction*>(data);
  if (counts.fail_every && (counts.constructed + 1) % counts.fail_every == 0) {
    counts.fail_every = 0;
    return 1;
  }
  counts.constructed++;
  memset(object, 0x5a, 100);
  return 0;
}

void destruct(void* object, void* data) {
  const auto* const bytes = static_cast<unsigned char*>(object);
  EXPECT_TRUE(std::all_of(bytes, bytes + 100, [](unsigned char byte) { return byte == 0x5a; }));
  static_cast<Construction*>(data)->destructed++;
}

TEST(Slab, ConstructedOnceUntilTheObjectGoesBackToItsSlab) {
  Construction counts;
  kmem_cache* const cache =
      kmem_cache_create("constructed", 100, 0, 0, nullptr, construct, destruct, &counts);
  std::vector<void*> objects(500);
  for (int round = 0; round < 5; round++) {
    for (void*& object : objects) {
      object = kmem_cache_alloc(cache, KM_ATOMIC);
      ASSERT_EQ(static_cast<unsigned char*>(object)[99], 0x5a);
    }
    for (void* object : objects) kmem_cache_free(cache, object);
  }
  EXPECT_EQ(counts.constructed, 500);
  EXPECT_EQ(counts.destructed, 0);
  kmem_cache_destroy(cache);
  EXPECT_EQ(counts.destructed, 500);
}

TEST(Slab, AConstructorThatFailsIsAnAllocationThatFails) {
  Construction counts;
  kmem_cache* const cache =
      kmem_cache_create("failing", 100, 0, 0, nullptr, construct, destruct, &counts);
  counts.fail_every = 3;
  void* const a = kmem_cache_alloc(cache, KM_ATOMIC);
  void* const b = kmem_cache_alloc(cache, KM_ATOMIC);
  EXPECT_EQ(kmem_cache_alloc(cache, KM_ATOMIC), nullptr);
  expect_sound(cache, 2);
  EXPECT_EQ(stats_of(cache).failures, 1u);
  kmem_cache_free(cache, a);
  kmem_cache_free(cache, b);
  kmem_cache_destroy(cache);
  EXPECT_EQ(counts.constructed, counts.destructed);
}

// ---- Fault injection.

// fail_some() decides about each allocation from the cache `faulty`. It lets the first `to_pass`
// allocations succeed, the next `to_fail` allocations fail, and all later ones succeed. `asked`
// is the number of these decisions.
kmem_cache* faulty = nullptr;
unsigned asked = 0, to_pass = 0, to_fail = 0;

int fail_some(kmem_inject_site site, const void* source, size_t size, int flags) {
  EXPECT_TRUE(host_cpu.interrupts_off);
  if (site != KMEM_INJECT_CACHE || source != faulty) return 0;
  EXPECT_EQ(size, 40u);
  EXPECT_EQ(flags, KM_ATOMIC);
  asked++;
  if (to_pass > 0) {
    to_pass--;
    return 0;
  }
  if (to_fail == 0) return 0;
  to_fail--;
  return 1;
}

int fail_others(kmem_inject_site, const void*, size_t, int) {
  return 1;
}

TEST(Slab, AnAllocationThatIsToFailTakesNothingAndIsNotSeenByTheTracer) {
  faulty = kmem_cache_create("faulty", 64, 0, 0, nullptr, nullptr, nullptr, nullptr);
  ASSERT_EQ(kmem_inject_begin(fail_some), 1);
  EXPECT_EQ(kmem_inject_begin(fail_others), 0) << "one at a time";
  kmem_cache* const later =
      kmem_cache_create("faulty_later", 64, 0, 0, nullptr, nullptr, nullptr, nullptr);
  kmem_cache_cpu_flags(faulty, KMC_TRACED | KMC_EVER_TRACED, 0);
  const uint64_t recorded_before = recorded;
  asked = 0;
  to_pass = 2, to_fail = 3;
  void* const slow = kmem_cache_alloc_sized(faulty, 40, KM_ATOMIC);  // from a slab
  ASSERT_NE(slow, nullptr);
  kmem_cache_free(faulty, slow);
  void* const fast = kmem_cache_alloc_sized(faulty, 40, KM_ATOMIC);  // from the magazine
  ASSERT_EQ(fast, slow);
  // An injected failure of an allocation that would take its object from a slab.
  EXPECT_EQ(kmem_cache_alloc_sized(faulty, 40, KM_ATOMIC), nullptr);
  expect_sound(faulty, 1);
  kmem_cache_free(faulty, fast);
  // Injected failures of allocations that would take the object from the magazine. The object stays
  // there.
  EXPECT_EQ(kmem_cache_alloc_sized(faulty, 40, KM_ATOMIC), nullptr);
  EXPECT_EQ(kmem_cache_alloc_sized(faulty, 40, KM_ATOMIC), nullptr);
  expect_sound(faulty, 0);
  EXPECT_EQ(asked, 5u);
  EXPECT_EQ(recorded - recorded_before, 2u);
  EXPECT_EQ(stats_of(faulty).failures, 3u);
  EXPECT_EQ(stats_of(faulty).allocations, 2u);
  // fail_some() is also called for a cache that was created after kmem_inject_begin().
  kmem_cache* const first = std::exchange(faulty, later);
  to_fail = 1;
  EXPECT_EQ(kmem_cache_alloc_sized(later, 40, KM_ATOMIC), nullptr);
  kmem_cache_destroy(later);
  faulty = first;
  // After kmem_inject_end(), fail_some() is not called any more.
  kmem_inject_end();
  asked = 0, to_fail = 10;
  void* const object = kmem_cache_alloc_sized(faulty, 40, KM_ATOMIC);
  EXPECT_EQ(object, fast);
  EXPECT_EQ(kmem_inject(KMEM_INJECT_ARENA, nullptr, 1, 0), 0);
  EXPECT_EQ(asked, 0u);
  kmem_cache_free(faulty, object);
  kmem_cache_cpu_flags(faulty, 0, KMC_TRACED | KMC_EVER_TRACED);
  kmem_cache_destroy(faulty);
}

// ---- Names, references, ends.

TEST(Slab, NamesAreUnique) {
  const auto make = [](const char* name) {
    return kmem_cache_create(name, 8, 0, 0, nullptr, nullptr, nullptr, nullptr);
  };
  kmem_cache* const caches[] = {make("twin"),
                                make("twin"),
                                make("twin"),
                                make("ctl"),
                                make("a_name_that_is_much_too_long_to_be_kept"),
                                make("a_name_that_is_much_too_long_to_be_kept")};
  const char* const names[] = {"twin",
                               "twin.2",
                               "twin.3",
                               "ctl.2",
                               "a_name_that_is_much_too_long_to",
                               "a_name_that_is_much_too_long_.2"};
  for (int i = 0; i < 6; i++) {
    EXPECT_STREQ(kmem_cache_name(caches[i]), names[i]);
    kmem_cache* const found = kmem_cache_find(names[i]);
    EXPECT_EQ(found, caches[i]);
    kmem_cache_release(found);
  }
  kmem_cache_destroy(caches[1]);
  EXPECT_EQ(kmem_cache_find("twin.2"), nullptr);
  kmem_cache* const again = make("twin");
  EXPECT_STREQ(kmem_cache_name(again), "twin.2");
  kmem_cache_destroy(again);
  for (int i : {0, 2, 3, 4, 5}) kmem_cache_destroy(caches[i]);
}

TEST(Slab, IterationVisitsEachCacheOnceInOrderOfCreation) {
  kmem_cache* const a = kmem_cache_create("iterate_a", 8, 0, 0, nullptr, nullptr, nullptr, nullptr);
  kmem_cache* const b = kmem_cache_create("iterate_b", 8, 0, 0, nullptr, nullptr, nullptr, nullptr);
  std::vector<kmem_cache*> seen;
  for (kmem_cache* cache = kmem_cache_next(nullptr); cache; cache = kmem_cache_next(cache)) {
    seen.push_back(cache);
    if (cache == a) kmem_cache_destroy(a);  // the iterator's reference keeps the cache
  }
  EXPECT_STREQ(kmem_cache_name(seen[0]), "kmem_slab");
  ASSERT_GE(seen.size(), 2u);
  EXPECT_EQ(seen[seen.size() - 2], a);
  EXPECT_EQ(seen.back(), b);
  EXPECT_EQ(kmem_cache_find("iterate_a"), nullptr);
  kmem_cache_destroy(b);
}

TEST(Slab, DestroyedWithLiveObjectsItIsAZombieUntilTheyAreGone) {
  const uint64_t before = destroyed;
  host::take_log();
  Construction counts;
  kmem_cache* const cache =
      kmem_cache_create("haunted", 100, 0, 0, nullptr, construct, destruct, &counts);
  std::vector<void*> objects(70);
  for (void*& object : objects) object = kmem_cache_alloc(cache, KM_ATOMIC);
  for (int i = 0; i < 40; i++) {
    kmem_cache_free(cache, objects.back());
    objects.pop_back();
  }
  kmem_cache_destroy(cache);
  EXPECT_EQ(host::take_log(), "cache haunted destroyed with 30 live objects\n");
  EXPECT_EQ(destroyed, before);
  kmem_cache* const found = kmem_cache_find("haunted");
  ASSERT_EQ(found, cache);
  EXPECT_EQ(stats_of(cache).live, 30u);
  EXPECT_EQ(stats_of(cache).magazine_rounds, 0u);
  for (void* object : objects) kmem_cache_free(cache, object);
  EXPECT_EQ(counts.destructed, counts.constructed);
  EXPECT_EQ(destroyed, before) << "a reference is held";
  kmem_cache_release(found);
  EXPECT_EQ(destroyed, before + 1);
  EXPECT_EQ(kmem_cache_find("haunted"), nullptr);
}

kmem_cache* haunted;
std::array<std::atomic<void*>, 4096> haunting;

TEST(Slab, TheLastObjectOfAZombieMayComeBackFromAnInterrupt) {
  for (int round = 0; round < 20; round++) {
    const uint64_t before = destroyed;
    haunted = kmem_cache_create("haunted", 64, 0, 0, nullptr, nullptr, nullptr, nullptr);
    for (auto& object : haunting) object = kmem_cache_alloc(haunted, KM_ATOMIC);
    host::run_cpus(
        3,
        [](unsigned cpu) {
          if (cpu == 0) kmem_cache_destroy(haunted);
          for (auto& object : haunting) kmem_cache_free(haunted, object.exchange(nullptr));
        },
        [] {
          for (size_t i = 0, start = host::interrupts_taken(); i < 20; i++)
            kmem_cache_free(haunted,
                            haunting[(start * 20 + i) % haunting.size()].exchange(nullptr));
        });
    // If an interrupt has freed the last object of `haunted`, the next call of kmem_cache_create()
    // or kmem_cache_destroy() frees the cache.
    kmem_cache_destroy(kmem_cache_create("sexton", 8, 0, 0, nullptr, nullptr, nullptr, nullptr));
    ASSERT_EQ(destroyed, before + 2);
    ASSERT_EQ(kmem_cache_find("haunted"), nullptr);
  }
  host::take_log();
}

// The export function of an arena. It is called when a cache returns a slab to the arena. If a test
// has set `at_export`, the export function calls at_export() once. In at_export(), the test does
// what another CPU might do at this moment.
void (*at_export)() = nullptr;
void export_and_call(arena* source, void* base, size_t size) {
  arena_span_free(source, base, size);
  if (auto* const action = std::exchange(at_export, nullptr)) action();
}

struct ZombieShape {
  Shape shape;
  bool checked;
};
void PrintTo(const ZombieShape& zombie, std::ostream* out) {
  PrintTo(zombie.shape, out);
  *out << (zombie.checked ? ", checked" : "");
}

class SlabZombie : public testing::TestWithParam<ZombieShape> {
 protected:
  static inline kmem_cache* cache_;
  static inline void* last_;
  static inline uint64_t destroyed_meanwhile_;
};

TEST_P(SlabZombie, IsNotBuriedWhileAFreeIsUnderWay) {
  arena* const source = arena_create("leaving", 0, 0, SLAB_OS_PAGE_SIZE, arena_span_alloc,
                                     export_and_call, page_arena, 0, KM_SLEEP);
  const auto [shape, checked] = GetParam();
  cache_ = kmem_cache_create("leaving", shape.size, shape.align, shape.flags, source, nullptr,
                             nullptr, nullptr);
  if (checked) kmem_cache_check_start(cache_);
  std::vector<void*> objects;
  while (stats_of(cache_).slabs < 3) objects.push_back(kmem_cache_alloc(cache_, KM_ATOMIC));
  kmem_cache_destroy(cache_);
  // The cache keeps one empty slab. When the frees below have emptied a second slab, only last_ is
  // still allocated. While the second slab goes back to `source`, at_export frees last_, as another
  // CPU might.
  last_ = objects.back();
  objects.pop_back();
  at_export = [] {
    const uint64_t before = destroyed;
    kmem_cache_free(cache_, last_);
    kmem_update();
    destroyed_meanwhile_ = destroyed - before;
    last_ = nullptr;
  };
  const uint64_t before = destroyed;
  for (void* object : objects) kmem_cache_free(cache_, object);
  EXPECT_EQ(last_, nullptr) << "the test's own arithmetic";
  EXPECT_EQ(destroyed_meanwhile_, 0u);
  kmem_update();
  EXPECT_EQ(destroyed, before + 1);
  arena_destroy(source);
  host::take_log();
}

INSTANTIATE_TEST_SUITE_P(All, SlabZombie,
                         testing::Values(ZombieShape{{512, 0, 0}, false},
                                         ZombieShape{{2048, 0, 0}, false},
                                         ZombieShape{{64, 8, KMC_NOTOUCH}, false},
                                         ZombieShape{{512, 0, 0}, true},
                                         ZombieShape{{2048, 0, 0}, true}));

// ---- Misuse whose detection costs nothing.

using SlabDeathTest = testing::Test;

TEST(SlabDeathTest, WrongCacheAndNoObject) {
  kmem_cache* const a =
      kmem_cache_create("right", 64, 0, KMC_NOMAGAZINE, nullptr, nullptr, nullptr, nullptr);
  kmem_cache* const b =
      kmem_cache_create("wrong", 64, 0, KMC_NOMAGAZINE, nullptr, nullptr, nullptr, nullptr);
  char* const object = static_cast<char*>(kmem_cache_alloc(a, KM_ATOMIC));
  EXPECT_DEATH(kmem_cache_free(b, object), "panic: wrong: .* belongs to right");
  EXPECT_DEATH(kmem_cache_free(a, object + 8), "panic: right: .* is not an allocated object");
  kmem_cache_free(a, object);
  EXPECT_DEATH(kmem_cache_free(a, object), "panic: right: .* is not an allocated object");
  kmem_cache* const c = kmem_cache_create("hashed", 64, 0, KMC_NOMAGAZINE | KMC_NOTOUCH, nullptr,
                                          nullptr, nullptr, nullptr);
  void* const hashed = kmem_cache_alloc(c, KM_ATOMIC);
  kmem_cache_free(c, hashed);
  EXPECT_DEATH(kmem_cache_free(c, hashed), "panic: hashed: .* is not allocated");
  EXPECT_DEATH(kfree(static_cast<char*>(direct_map({kMemory / 2})) + 16),
               "panic: kfree: .* is not allocated");
  kmem_cache_destroy(a);
  kmem_cache_destroy(b);
  kmem_cache_destroy(c);
}

TEST(SlabDeathTest, CachesThatCannotBe) {
  const auto make = [](const char* name, size_t size, size_t align, int flags = 0) {
    kmem_cache_create(name, size, align, flags, nullptr, nullptr, nullptr, nullptr);
  };
  for (const char* name : {"", "two words", "a/b", "line\n", ".", "..", "\x7f", "\xc3\xa4"})
    EXPECT_DEATH(make(name, 8, 0), "panic: .* is not a valid name");
  EXPECT_DEATH(make("none", 0, 0), "panic: none: .* 0 bytes");
  EXPECT_DEATH(make("endless", SIZE_MAX, 0), "panic: endless: .* 18446744073709551615 bytes");
  // A record of the tracer has 31 bits for a size.
  EXPECT_DEATH(make("endless", uint64_t{1} << 31, 0, KMC_NOTOUCH), "panic: endless: .* bytes");
  // Slabs that are not memory have the alignment of their arena's quantum.
  EXPECT_DEATH(make("aligned", 8192, 8192, KMC_NOTOUCH), "panic: aligned: .* aligned to 8192");
  EXPECT_DEATH(make("odd", 8, 24), "panic: odd: .* aligned to 24");
  EXPECT_DEATH(make("wide", 8, 8192), "panic: wide: .* aligned to 8192");
}

TEST(SlabDeathTest, ObjectsThatNoRecordCanHold) {
  for (const uint64_t base : {uint64_t{1} << 47, uint64_t{1} << 60}) {
    arena* const ids = arena_create("ids", base, 1 << 20, SLAB_OS_PAGE_SIZE, nullptr, nullptr,
                                    nullptr, 0, KM_SLEEP);
    kmem_cache* const traced =
        kmem_cache_create("wide", 64, 0, KMC_NOTOUCH, ids, nullptr, nullptr, nullptr);
    EXPECT_DEATH(kmem_cache_alloc(traced, KM_ATOMIC), "panic: wide: .* has more than 48 bits");
    kmem_cache* const untraced =
        kmem_cache_create("wide", 64, 0, KMC_NOTOUCH | KMC_NOTRACE, ids, nullptr, nullptr, nullptr);
    kmem_cache_free(untraced, kmem_cache_alloc(untraced, KM_ATOMIC));
    kmem_cache_destroy(untraced);
    kmem_cache_destroy(traced);
    arena_destroy(ids);
  }
}

TEST(SlabDeathTest, RequestsThatCannotBe) {
  Construction counts;
  kmem_cache* const plain =
      kmem_cache_create("plain", 100, 0, 0, nullptr, nullptr, nullptr, nullptr);
  kmem_cache* const constructed =
      kmem_cache_create("constructed", 100, 0, 0, nullptr, construct, destruct, &counts);
  // The first round takes objects from slabs, the second from magazines.
  for (int round = 0; round < 2; round++) {
    EXPECT_DEATH(kmem_cache_alloc_sized(plain, 101, KM_ATOMIC),
                 "panic: plain: 101 bytes .* objects have 100");
    EXPECT_DEATH(kmem_cache_alloc_sized(plain, 101, KM_ZERO), "panic: plain: 101 bytes");
    EXPECT_DEATH(kmem_cache_alloc(constructed, KM_ZERO), "panic: constructed: .* constructor");
    EXPECT_DEATH(kmem_cache_alloc_sized(constructed, 10, KM_ZERO),
                 "panic: constructed: .* constructor");
    {
      const InterruptsOff off;
      EXPECT_DEATH(kmem_cache_alloc(plain, KM_SLEEP), "panic: plain: .* may not sleep");
      EXPECT_DEATH(kmem_cache_alloc(plain, KM_SLEEP | KM_ZERO), "panic: plain: .* may not sleep");
      EXPECT_DEATH(kmalloc(10, KM_SLEEP), "panic: kmalloc_16: .* may not sleep");
    }
    for (kmem_cache* cache : {plain, constructed})
      kmem_cache_free(cache, kmem_cache_alloc(cache, KM_SLEEP));
  }
  kmem_cache_destroy(plain);
  kmem_cache_destroy(constructed);
}

}  // namespace
