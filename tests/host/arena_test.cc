#include <gtest/gtest.h>

#include <atomic>
#include <bit>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "arch/x86_64/interrupts.h"
#include "arena.h"
#include "cpus.h"
#include "slab.h"
#include "slab_os.h"

namespace {

// No memory is mapped at this address. So the test crashes if an arena accesses the memory that it
// allocates.
constexpr uintptr_t kBase = 0x10000;

struct arena_stats stats_of(arena* arena) {
  struct arena_stats stats;
  arena_stats(arena, &stats);
  return stats;
}

void* no_import(arena*, size_t, int) {
  return nullptr;
}

// A model of an arena. For each allocated segment, `live` maps its start to its size in bytes. For
// each span, `spans` maps its start to its size in bytes.
struct Model {
  std::map<uintptr_t, size_t> live, spans;

  void add(uintptr_t start, size_t size) {
    const auto next = live.lower_bound(start);
    if (next != live.end()) {
      ASSERT_LE(start + size, next->first);
    }
    if (next != live.begin()) {
      ASSERT_LE(std::prev(next)->first + std::prev(next)->second, start);
    }
    const auto span = std::prev(spans.upper_bound(start));
    ASSERT_LE(start + size, span->first + span->second);
    live[start] = size;
  }
  // Returns the size in bytes of each gap between allocated segments, in all spans. The arena must
  // have one free segment for each gap.
  std::vector<size_t> gaps() const {
    std::vector<size_t> result;
    for (const auto& [start, size] : spans) {
      uintptr_t at = start;
      for (auto used = live.lower_bound(start); used != live.end() && used->first < start + size;
           ++used) {
        if (used->first > at) result.push_back(used->first - at);
        at = used->first + used->second;
      }
      if (at < start + size) result.push_back(start + size - at);
    }
    return result;
  }
  uint64_t live_bytes() const {
    uint64_t sum = 0;
    for (const auto& [start, size] : live) sum += size;
    return sum;
  }
  void expect_equal(arena* arena) const {
    const struct arena_stats stats = stats_of(arena);
    ASSERT_EQ(stats.live, live.size());
    ASSERT_EQ(stats.allocations - stats.frees, live.size());
    ASSERT_EQ(stats.hash_items, live.size());
    ASSERT_EQ(stats.allocated_bytes, live_bytes());
    uint64_t total = 0;
    for (const auto& [start, size] : spans) total += size;
    ASSERT_EQ(stats.total_bytes, total);
    // Each gap is one free segment. List i has the segments of 2^i to 2^(i+1) - 1 quanta.
    uint64_t lists[64] = {};
    const std::vector<size_t> free = gaps();
    for (size_t gap : free) lists[std::bit_width(gap / stats.quantum) - 1]++;
    for (int i = 0; i < 64; i++) ASSERT_EQ(arena_free_segments(arena, i), lists[i]) << "list " << i;
    ASSERT_EQ(stats.segments, live.size() + free.size() + spans.size());
  }
};

class ArenaModel : public testing::TestWithParam<size_t> {};

TEST_P(ArenaModel, AgreesWithAModel) {
  const size_t quantum = GetParam();
  const auto round = [&](size_t size) { return (size + quantum - 1) / quantum * quantum; };
  arena* const arena =
      arena_create("model", 0, 0, quantum, no_import, nullptr, nullptr, 0, KM_SLEEP);
  ASSERT_NE(arena, nullptr);
  Model model;
  for (int i = 0; i < 3; i++) {
    const uintptr_t start = kBase * quantum * (i + 1);
    const size_t size = quantum * (1'000 + 700 * i);
    ASSERT_EQ(arena_add(arena, start, size, KM_SLEEP), 0);
    model.spans[start] = size;
  }
  std::mt19937_64 random(quantum);
  uint64_t failures = 0;
  for (int i = 0; i < 40'000; i++) {
    // Let the number of allocations rise and fall in waves.
    if (random() % 100 < (i / 4'000 % 2 ? 45u : 55u)) {
      const size_t size = 1 + random() % (quantum * (random() % 4 ? 8 : 100));
      const auto start = reinterpret_cast<uintptr_t>(arena_alloc(arena, size, KM_ATOMIC));
      if (start) {
        ASSERT_EQ(start % quantum, 0u);
        ASSERT_NO_FATAL_FAILURE(model.add(start, round(size)));
      } else {
        failures++;
        for (size_t gap : model.gaps()) ASSERT_LT(gap, size) << "it fails only if nothing fits";
      }
    } else if (!model.live.empty()) {
      auto victim = model.live.lower_bound(random() % (kBase * quantum * 4));
      if (victim == model.live.end()) victim = model.live.begin();
      arena_free(arena, reinterpret_cast<void*>(victim->first), victim->second);
      model.live.erase(victim);
    }
    if (i % 101 == 0) {
      ASSERT_NO_FATAL_FAILURE(model.expect_equal(arena));
    }
  }
  EXPECT_GT(failures, 0u);
  EXPECT_EQ(stats_of(arena).failures, failures);
  for (const auto& [start, size] : model.live)
    arena_free(arena, reinterpret_cast<void*>(start), size);
  model.live.clear();
  model.expect_equal(arena);
  arena_destroy(arena);
}
INSTANTIATE_TEST_SUITE_P(Quanta, ArenaModel, testing::Values(1, 16, 4096));

// ---- Import.

// The state of import() and give_back(). `out` is the number of imported bytes that were not given
// back yet. `imports` counts the successful imports. If a test sets `fails`, import() fails.
struct Source {
  uint64_t out = 0, imports = 0;
  bool fails = false;
} source_state;

void* import(arena* source, size_t size, int flags) {
  if (source_state.fails) return nullptr;
  void* const memory = arena_alloc(source, size, flags);
  if (memory) source_state.out += size, source_state.imports++;
  return memory;
}
void give_back(arena* source, void* base, size_t size) {
  source_state.out -= size;
  arena_free(source, base, size);
}

// After arena_prepare() has returned 0, an allocation takes no page for boundary tags and no memory
// for the hash. No test that leaves many free tags may run before this test: the free tags would
// hide an error.
TEST(Arena, WhatIsDoneBesidesCanBeDoneBefore) {
  std::vector<void*> pages;
  unsigned times = 0;
  for (unsigned i = 0; i < 5000; i++) {
    while (arena_prepare(base_arena)) times++;
    const struct arena_stats before = stats_of(base_arena);
    pages.push_back(arena_span_alloc(base_arena, SLAB_OS_PAGE_SIZE, KM_ATOMIC));
    ASSERT_TRUE(pages.back());
    const struct arena_stats after = stats_of(base_arena);
    ASSERT_EQ(after.tag_bytes, before.tag_bytes);
    ASSERT_EQ(after.hash_bytes, before.hash_bytes);
    ASSERT_EQ(after.allocations, before.allocations + 1);
  }
  EXPECT_GE(times, size_t{3});
  for (void* page : pages) arena_span_free(base_arena, page, SLAB_OS_PAGE_SIZE);
}

TEST(Arena, ImportsSpansAndReturnsThemWhenTheyAreFree) {
  source_state = {};
  arena* const source =
      arena_create("source", kBase, 1 << 20, 4096, nullptr, nullptr, nullptr, 0, KM_SLEEP);
  arena* const arena = arena_create("importer", 0, 0, 64, import, give_back, source, 0, KM_SLEEP);
  EXPECT_EQ(arena_parent(arena), source);
  std::mt19937_64 random(3);
  std::map<uintptr_t, size_t> live;
  for (int i = 0; i < 30'000; i++) {
    if (i % 3'000 == 0) source_state.fails = !source_state.fails;
    if (random() % 100 < (i / 5'000 % 2 ? 40u : 60u)) {
      const size_t size = 1 + random() % (random() % 8 ? 500 : 10'000);
      if (void* const memory = arena_alloc(arena, size, KM_ATOMIC)) {
        const auto start = reinterpret_cast<uintptr_t>(memory);
        const auto next = live.lower_bound(start);
        ASSERT_TRUE(next == live.end() || start + size <= next->first);
        ASSERT_TRUE(next == live.begin() ||
                    std::prev(next)->first + std::prev(next)->second <= start);
        live[start] = size;
      }
    } else if (!live.empty()) {
      auto victim = std::next(live.begin(), random() % live.size());
      arena_free(arena, reinterpret_cast<void*>(victim->first), victim->second);
      live.erase(victim);
    }
    ASSERT_EQ(stats_of(arena).imported_bytes, source_state.out);
    ASSERT_EQ(stats_of(source).allocated_bytes, source_state.out);
    ASSERT_EQ(stats_of(arena).live, live.size());
  }
  EXPECT_GT(source_state.imports, 100u);
  for (const auto& [start, size] : live) arena_free(arena, reinterpret_cast<void*>(start), size);
  EXPECT_EQ(source_state.out, 0u);
  EXPECT_EQ(stats_of(arena).total_bytes, 0u);
  EXPECT_EQ(stats_of(arena).segments, 0u);
  arena_destroy(arena);
  arena_destroy(source);
}

// ---- Limits.

TEST(Arena, CanBeUsedToTheLastQuantum) {
  arena* const arena =
      arena_create("exact", kBase, 1000, 1, nullptr, nullptr, nullptr, 0, KM_SLEEP);
  void* const all = arena_alloc(arena, 1000, KM_ATOMIC);
  EXPECT_EQ(all, reinterpret_cast<void*>(kBase));
  EXPECT_EQ(arena_alloc(arena, 1, KM_ATOMIC), nullptr);
  arena_free(arena, all, 1000);
  // The list for 512 to 1023 bytes may have segments that are too small for 999 bytes. The arena
  // must search this list nevertheless, and find the free segment of 1000 bytes.
  void* const most = arena_alloc(arena, 999, KM_ATOMIC);
  ASSERT_NE(most, nullptr);
  void* const last = arena_alloc(arena, 1, KM_ATOMIC);
  EXPECT_EQ(last, reinterpret_cast<void*>(kBase + 999));
  arena_free(arena, most, 999);
  arena_free(arena, last, 1);
  EXPECT_EQ(arena_alloc(arena, 0, KM_ATOMIC), nullptr);
  EXPECT_EQ(arena_alloc(arena, 1001, KM_ATOMIC), nullptr);
  EXPECT_EQ(arena_alloc(arena, SIZE_MAX, KM_ATOMIC), nullptr);
  EXPECT_EQ(arena_alloc(arena, SIZE_MAX / 2 + 2, KM_ATOMIC), nullptr);
  arena_destroy(arena);
}

TEST(Arena, HashAndTagsGrowWithTheSegments) {
  constexpr size_t kSegments = 60'000;
  arena* const arena =
      arena_create("many", kBase, kSegments, 1, nullptr, nullptr, nullptr, 0, KM_SLEEP);
  std::vector<void*> all(kSegments);
  struct arena_stats stats = stats_of(arena);
  for (void*& segment : all) {
    const uint64_t buckets = stats.hash_buckets;
    segment = arena_alloc(arena, 1, KM_ATOMIC);
    stats = stats_of(arena);
    ASSERT_LE(stats.hash_buckets, buckets + 1) << "an operation adds a bucket at most";
  }
  EXPECT_EQ(stats.hash_items, kSegments);
  EXPECT_LE(stats.hash_items, 2 * stats.hash_buckets);
  EXPECT_EQ(arena_alloc(arena, 1, KM_ATOMIC), nullptr);
  for (size_t i = 0; i < kSegments; i += 2) arena_free(arena, all[i], 1);
  stats = stats_of(arena);
  EXPECT_EQ(arena_free_segments(arena, 0), kSegments / 2);
  for (size_t i = 1; i < kSegments; i += 2) arena_free(arena, all[i], 1);
  stats = stats_of(arena);
  EXPECT_EQ(stats.segments, 2u) << "all has merged into one";
  EXPECT_EQ(stats.hash_buckets, 16u);
  arena_destroy(arena);
}

TEST(Arena, PassesOnWhatItsSourceHas) {
  const uint64_t allocated = stats_of(base_arena).allocated_bytes;
  arena* const passing = arena_create("passing", 0, 0, SLAB_OS_PAGE_SIZE, arena_span_alloc,
                                      arena_span_free, base_arena, 0, KM_SLEEP);
  arena_forward(passing);
  void* const page = arena_alloc(passing, 100, KM_ATOMIC);
  void* const pages = arena_alloc(passing, 2 * SLAB_OS_PAGE_SIZE, KM_ATOMIC);
  ASSERT_TRUE(page && pages);
  struct arena_stats stats = stats_of(passing);
  EXPECT_EQ(stats.live, 2u);
  EXPECT_EQ(stats.allocated_bytes, 3u * SLAB_OS_PAGE_SIZE);
  EXPECT_EQ(stats.total_bytes, stats.allocated_bytes);
  EXPECT_EQ(stats.direct_bytes, stats.allocated_bytes);
  EXPECT_EQ(stats.segments, 0u) << "it pays for none";
  EXPECT_GE(stats_of(base_arena).allocated_bytes, allocated + 3 * SLAB_OS_PAGE_SIZE);
  EXPECT_EQ(arena_alloc(passing, size_t{1} << 40, KM_SLEEP), nullptr);
  arena_free(passing, page, 100);
  arena_free(passing, pages, 2 * SLAB_OS_PAGE_SIZE);
  stats = stats_of(passing);
  EXPECT_EQ(stats.live, 0u);
  EXPECT_EQ(stats.total_bytes, 0u);
  EXPECT_EQ(stats.frees, 2u);
  EXPECT_EQ(stats.failures, 1u);
  arena_destroy(passing);
}

TEST(Arena, BaseArenaCanBeUsedUpAndComesBack) {
  const struct arena_stats before = stats_of(base_arena);
  std::vector<void*> pages;
  while (void* const page = arena_alloc(base_arena, 4096, KM_ATOMIC)) pages.push_back(page);
  // At most 5 % of the free memory may go to boundary tags and the hash. One page of tags is enough
  // for about 72 pages.
  EXPECT_GT(pages.size() * 4096, (before.total_bytes - before.allocated_bytes) * 95 / 100);
  EXPECT_EQ(arena_create("none", kBase, 100, 1, nullptr, nullptr, nullptr, 16, KM_ATOMIC), nullptr);
  for (void* page : pages) arena_free(base_arena, page, 4096);
  // Allocating all these pages again must need no further page of boundary tags.
  const uint64_t kept = stats_of(base_arena).allocated_bytes;
  for (void*& page : pages) ASSERT_NE(page = arena_alloc(base_arena, 4096, KM_ATOMIC), nullptr);
  for (void* page : pages) arena_free(base_arena, page, 4096);
  EXPECT_EQ(stats_of(base_arena).allocated_bytes, kept);
}

TEST(Arena, QuantumCachesServeSmallRequests) {
  arena* const ids = arena_create("ids", kBase, 100'000, 1, nullptr, nullptr, nullptr, 8, KM_SLEEP);
  std::map<uintptr_t, size_t> live;
  std::mt19937_64 random(8);
  for (int i = 0; i < 20'000; i++) {
    if (random() % 3'000 >= live.size()) {
      const size_t size = 1 + random() % 12;
      const auto id = reinterpret_cast<uintptr_t>(arena_alloc(ids, size, KM_ATOMIC));
      ASSERT_NE(id, 0u);
      const auto next = live.lower_bound(id);
      ASSERT_TRUE(next == live.end() || id + size <= next->first);
      ASSERT_TRUE(next == live.begin() || std::prev(next)->first + std::prev(next)->second <= id);
      live[id] = size;
    } else {
      const auto victim = std::next(live.begin(), random() % live.size());
      arena_free(ids, reinterpret_cast<void*>(victim->first), victim->second);
      live.erase(victim);
    }
  }
  kmem_cache* const cache = kmem_cache_find("ids_3");
  ASSERT_NE(cache, nullptr);
  EXPECT_EQ(kmem_cache_arena(cache), ids);
  EXPECT_TRUE(kmem_cache_flags(cache) & KMC_NOTRACE);
  EXPECT_EQ(kmem_cache_verify(cache), nullptr);
  uint64_t threes = 0;
  for (const auto& [id, size] : live) threes += size == 3;
  struct kmem_cache_stats stats;
  kmem_cache_stats(cache, &stats);
  EXPECT_EQ(stats.live, threes);
  kmem_cache_release(cache);
  for (const auto& [id, size] : live) arena_free(ids, reinterpret_cast<void*>(id), size);
  arena_destroy(ids);
}

// Would find quantum caches that keep their slabs while somebody who walks the caches has a
// reference: the arena would then be destroyed with live segments, and panic.
TEST(Arena, EndsWhileSomebodyLooksAtItsQuantumCaches) {
  arena* const arena =
      arena_create("looked_at", kBase, 1000, 1, nullptr, nullptr, nullptr, 4, KM_SLEEP);
  arena_free(arena, arena_alloc(arena, 3, KM_SLEEP), 3);
  kmem_cache* cache = kmem_cache_next(nullptr);
  while (kmem_cache_arena(cache) != arena || kmem_cache_object_size(cache) != 3)
    cache = kmem_cache_next(cache);
  arena_destroy(arena);
  EXPECT_TRUE(kmem_cache_is_zombie(cache));
  kmem_cache_release(cache);
}

TEST(Arena, ListShowsTheTree) {
  std::vector<std::string> names;
  for (arena* arena = arena_next(nullptr); arena; arena = arena_next(arena))
    names.push_back(arena_name(arena));
  ASSERT_GE(names.size(), 3u);
  EXPECT_EQ(names[0], "base");
  EXPECT_EQ(names[1], "page");
  EXPECT_EQ(arena_parent(page_arena), base_arena);
  EXPECT_EQ(arena_parent(base_arena), nullptr);
}

// ---- Several CPUs and interrupts.

struct Shared {
  arena* arenas[3];
  std::array<std::atomic<uint64_t>, 512> slots{};  // each: result of pack(), or 0 for no allocation
  std::array<std::atomic<bool>, 1 << 16> taken{};  // has arenas[0] allocated kBase + index?
  std::atomic<int> overlaps{0};

  // `which` is an index in `arenas`. arenas[0] allocates numbers, and the other arenas allocate
  // pages. `size` counts these numbers or pages.
  static uint64_t pack(uint64_t which, uint64_t size, void* address) {
    return which << 62 | size << 48 | reinterpret_cast<uintptr_t>(address);
  }
  void release(uint64_t packed) {
    if (!packed) return;
    const uint64_t which = packed >> 62, size = packed >> 48 & 0x3fff,
                   address = packed & 0xffff'ffff'ffff;
    if (which == 0) {
      for (uint64_t i = 0; i < size; i++) taken[address - kBase + i] = false;
    }
    arena_free(arenas[which], reinterpret_cast<void*>(address), which == 0 ? size : size * 4096);
  }
  uint64_t obtain(uint64_t which, uint64_t size) {
    void* const address = arena_alloc(arenas[which], which == 0 ? size : size * 4096, KM_ATOMIC);
    if (!address) return 0;
    if (which == 0) {
      for (uint64_t i = 0; i < size; i++)
        if (taken[reinterpret_cast<uintptr_t>(address) - kBase + i].exchange(true)) overlaps++;
    } else {
      *static_cast<uint64_t*>(address) = which;
    }
    return pack(which, size, address);
  }
};
Shared* shared;

void step(std::minstd_rand& random) {
  auto& slot = shared->slots[random() % shared->slots.size()];
  shared->release(
      slot.exchange(random() % 4 ? shared->obtain(random() % 3, 1 + random() % 12) : 0));
}

TEST(Arena, CpusAndInterruptsShareArenas) {
  shared = new Shared;
  arena* const numbers =
      arena_create("numbers", kBase, 1 << 16, 1, nullptr, nullptr, nullptr, 4, KM_SLEEP);
  shared->arenas[0] = numbers;
  shared->arenas[1] = page_arena;
  shared->arenas[2] = base_arena;
  const struct arena_stats before = stats_of(page_arena);
  host::run_cpus(
      4,
      [](unsigned cpu) {
        std::minstd_rand random(cpu + 1);
        for (int i = 0; i < 15'000; i++) step(random);
      },
      [] {
        thread_local std::minstd_rand random(host_cpu.id + 100);
        for (int i = 0; i < 4; i++) step(random);
      });
  for (auto& slot : shared->slots) shared->release(slot.exchange(0));
  EXPECT_EQ(shared->overlaps, 0);
  kmem_reap();
  slab_os_on_each_cpu([](void*) { kmem_drain_cpu(); }, nullptr);
  EXPECT_LE(stats_of(page_arena).live, before.live + 8) << "one empty slab for each quantum cache";
  kmem_cache* const cache = kmem_cache_find("numbers_2");
  EXPECT_EQ(kmem_cache_verify(cache), nullptr);
  kmem_cache_release(cache);
  arena_destroy(numbers);
  delete shared;
}

// ---- Misuse.

using ArenaDeathTest = testing::Test;

TEST(ArenaDeathTest, FreesThatCannotBe) {
  arena* const arena =
      arena_create("strict", kBase, 1000, 1, nullptr, nullptr, nullptr, 0, KM_SLEEP);
  void* const segment = arena_alloc(arena, 100, KM_ATOMIC);
  EXPECT_DEATH(arena_free(arena, segment, 99), "panic: arena strict: .* with size 99, but has 100");
  EXPECT_DEATH(arena_free(arena, static_cast<char*>(segment) + 1, 99),
               "panic: arena strict: .* is not allocated");
  EXPECT_DEATH(arena_destroy(arena), "panic: arena strict is destroyed with 1 live segments");
  arena_free(arena, segment, 100);
  EXPECT_DEATH(arena_free(arena, segment, 100), "panic: arena strict: .* is not allocated");
  arena_destroy(arena);
}

// CONFIG_SLAB_CHECK_CALLS, which host.mk sets, adds the checks that panic here.
TEST(ArenaDeathTest, FreesToQuantumCachesThatCannotBe) {
  arena* const numbers =
      arena_create("strict", kBase, 1000, 1, nullptr, nullptr, nullptr, 4, KM_SLEEP);
  for (arena* const arena : {numbers, page_arena}) {
    const size_t quantum = arena_quantum(arena);
    void* const segment = arena_alloc(arena, 3 * quantum, KM_ATOMIC);
    void* const other = arena_alloc(arena, 3 * quantum, KM_ATOMIC);
    const std::string gives_back = std::string("panic: arena ") + arena_name(arena) + ": .*";
    EXPECT_DEATH(arena_free(arena, segment, 2 * quantum),
                 gives_back + "with size .* it has another");
    EXPECT_DEATH(arena_free(arena, segment, 100 * quantum), gives_back);
    EXPECT_DEATH(arena_free(arena, static_cast<char*>(segment) + quantum, 3 * quantum), gives_back);
    EXPECT_DEATH(arena_span_free(arena, segment, quantum), gives_back);
    arena_free(arena, other, 3 * quantum);
    EXPECT_DEATH(arena_free(arena, other, 3 * quantum), gives_back + "is not allocated");
    EXPECT_DEATH(arena_span_free(arena, other, 3 * quantum), gives_back + "is not allocated");
    // `other` is allocated a second time, and so may be freed a second time.
    EXPECT_EQ(arena_alloc(arena, 3 * quantum, KM_ATOMIC), other);
    arena_free(arena, other, 3 * quantum);
    arena_free(arena, segment, 3 * quantum);
  }
  arena_destroy(numbers);
}

TEST(ArenaDeathTest, NamesThatCannotBe) {
  for (const char* name : {"", "two words", "a/b", "line\n", ".", "..", "\x7f", "\xc3\xa4"}) {
    EXPECT_DEATH(arena_create(name, kBase, 1000, 1, nullptr, nullptr, nullptr, 0, KM_SLEEP),
                 "panic: .* is not a valid name");
  }
}

TEST(ArenaDeathTest, SleepsWhereThatCannotBe) {
  arena* const arena =
      arena_create("awake", kBase, 1000, 1, nullptr, nullptr, nullptr, 4, KM_SLEEP);
  const InterruptsOff off;
  EXPECT_DEATH(arena_alloc(arena, 100, KM_SLEEP), "panic: awake: .* may not sleep");
  EXPECT_DEATH(arena_alloc(arena, 4, KM_SLEEP), "panic: awake.*: .* may not sleep");
  arena_free(arena, arena_alloc(arena, 100, KM_ATOMIC), 100);
}

}  // namespace
