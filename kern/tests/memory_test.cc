// The allocator on the live system: tasks on all CPUs and interrupts allocate, exchange and free
// objects, and every count is exact afterwards.
#include <array>
#include <atomic>

#include "arch/x86_64/smp.h"
#include "arch/x86_64/time.h"
#include "arch/x86_64/trap.h"
#include "arena.h"
#include "core/cpu.h"
#include "core/ktest.h"
#include "kmalloc.h"
#include "lib/string.h"
#include "pages.h"
#include "tests/team.h"

namespace {

constexpr uint8_t kVector = 0xf3;
constexpr unsigned kTasks = 4;
constexpr unsigned kOperations = 4'000;

struct Shape {
  size_t size, align;
  int flags;
};
constexpr std::array<Shape, 6> kShapes = {Shape{64, 0, 0}, {104, 0, 0},
                                          {1024, 0, 0},    {48, 0, KMC_NOTOUCH},
                                          {4096, 4096, 0}, {200, 0, KMC_NOMAGAZINE}};

// Shared by all tasks and interrupts.
struct Shared {
  std::array<kmem_cache*, kShapes.size()> caches;
  std::array<std::atomic<int64_t>, kShapes.size()> live;
  std::array<std::atomic<uint8_t*>, 64> exchange;
  std::atomic<uint32_t> interrupts, broken;
};
constinit Shared shared{};

struct Random {
  uint64_t state;
  uint64_t operator()() {
    state = state * 6364136223846793005 + 1442695040888963407;
    return state >> 33;
  }
};

// Allocates an object and fills it with the number of its cache.
uint8_t* make(unsigned which) {
  auto* const object = static_cast<uint8_t*>(kmem_cache_alloc(shared.caches[which], KM_ATOMIC));
  if (!object) return nullptr;
  shared.live[which]++;
  memset(object, static_cast<int>(which), kShapes[which].size);
  return object;
}

void destroy(uint8_t* object) {
  if (!object) return;
  const unsigned which = object[0];
  if (which >= kShapes.size()) {
    shared.broken++;
    return;
  }
  for (size_t i = 0; i < kShapes[which].size; i++) {
    if (object[i] != which) shared.broken++;
  }
  memset(object, 0xdd, kShapes[which].size);
  shared.live[which]--;
  kmem_cache_free(shared.caches[which], object);
}

void on_interrupt(TrapFrame&, void*) {
  Random random{shared.interrupts++ + (uint64_t{number_of(cpu_id())} << 32)};
  for (int i = 0; i < 4; i++) {
    auto& slot = shared.exchange[random() % shared.exchange.size()];
    destroy(slot.exchange(random() % 3 ? make(random() % kShapes.size()) : nullptr));
  }
}

void work(void*) {
  constexpr size_t kHeld = 200;
  auto** const held = static_cast<uint8_t**>(kmalloc(kHeld * sizeof(uint8_t*), KM_SLEEP | KM_ZERO));
  EXPECT(held);
  if (!held) return;
  Random random{ktest_random()};
  for (unsigned i = 0; i < kOperations; i++) {
    uint8_t*& mine = held[random() % kHeld];
    if (random() % 8 == 0) {
      mine = shared.exchange[random() % shared.exchange.size()].exchange(mine);
    } else {
      destroy(mine);
      mine = random() % 4 ? make(random() % kShapes.size()) : nullptr;
    }
    if (i % 16 == 0) interrupt_raise_self(kVector);
    if (i % 128 == 0) task_yield();
  }
  for (size_t i = 0; i < kHeld; i++) destroy(held[i]);
  kfree(held);
}

// Checks a cache at rest with `live` objects.
void expect_sound(kmem_cache* cache, uint64_t live) {
  if (const char* const wrong = kmem_cache_verify(cache)) {
    klog("%s: %s", kmem_cache_name(cache), wrong);
    EXPECT(!"the cache is sound");
  }
  struct kmem_cache_stats stats;
  kmem_cache_stats(cache, &stats);
  EXPECT(stats.live == live);
  EXPECT(stats.objects_out == live + stats.magazine_rounds);
}

void make_caches() {
  for (size_t i = 0; i < kShapes.size(); i++) {
    const auto [size, align, flags] = kShapes[i];
    shared.caches[i] =
        kmem_cache_create("ktest_memory", size, align, flags, nullptr, nullptr, nullptr, nullptr);
    EXPECT(shared.caches[i]);
  }
}

void run_team() {
  Team team(work, nullptr);
  for (unsigned i = 0; i < kTasks; i++) team.add();
  team.join();
}

}  // namespace

KTEST(memory_counts_stay_exact_with_cpus_and_interrupts) {
  make_caches();
  EXPECT(interrupt_register_vector(kVector, "ktest_memory", on_interrupt, nullptr).ok());
  for (int round = 0; round < 3; round++) {
    run_team();
    for (size_t i = 0; i < kShapes.size(); i++)
      expect_sound(shared.caches[i], static_cast<uint64_t>(shared.live[i].load()));
    on_each_cpu([](void*) { kmem_drain_cpu(); }, nullptr);
  }
  for (auto& slot : shared.exchange) destroy(slot.exchange(nullptr));
  EXPECT(shared.broken == 0);
  EXPECT(shared.interrupts >= 3 * kTasks * kOperations / 16);
  for (kmem_cache* cache : shared.caches) {
    expect_sound(cache, 0);
    kmem_cache_destroy(cache);
  }
}

KTEST(memory_all_caches_of_the_system_are_sound) {
  for (kmem_cache* cache = kmem_cache_next(nullptr); cache; cache = kmem_cache_next(cache)) {
    const char* const wrong = kmem_cache_verify(cache);
    if (wrong) klog("%s: %s", kmem_cache_name(cache), wrong);
    EXPECT(!wrong);
  }
}

KTEST(memory_zombie_cache_goes_with_its_last_object) {
  kmem_cache* const cache =
      kmem_cache_create("ktest_zombie", 64, 0, 0, nullptr, nullptr, nullptr, nullptr);
  EXPECT(cache);
  if (!cache) return;
  void* const first = kmem_cache_alloc(cache, KM_SLEEP);
  void* const second = kmem_cache_alloc(cache, KM_SLEEP);
  kmem_cache_destroy(cache);
  kmem_cache_free(cache, first);
  kmem_cache* const found = kmem_cache_find("ktest_zombie");
  EXPECT(found == cache);
  kmem_cache_release(found);
  kmem_cache_free(cache, second);
  EXPECT(!kmem_cache_find("ktest_zombie"));
}

// A list of allocations, each of which points to the previous one.
struct Chain {
  void* last = nullptr;
  uint64_t bytes = 0;

  bool add(size_t size, int flags) {
    void* const memory = kmalloc(size, flags);
    if (!memory) return false;
    *static_cast<void**>(memory) = last;
    last = memory;
    bytes += size;
    return true;
  }
  void free() {
    while (last) {
      void* const next = *static_cast<void**>(last);
      kfree(last);
      last = next;
    }
  }
};

// Takes all memory that atomic allocations can get. Nothing breaks, and the memory can be used for
// other sizes after it is freed.
KTEST(memory_runs_out_and_comes_back) {
  kmem_reap();
  const uint64_t before = memory_totals().free;
  Chain all;
  for (size_t size = 1 << 20; size >= 64; size /= 2) {
    while (all.add(size, KM_ATOMIC)) continue;
  }
  EXPECT(all.bytes > before / 4 * 3);
  all.free();
  Chain large;
  while (large.bytes < before / 4 * 3 && large.add(256 << 10, KM_SLEEP)) continue;
  EXPECT(large.bytes >= before / 4 * 3);
  large.free();
  kmem_reap();
  EXPECT(memory_totals().free > before - before / 64);
}

struct kmem_cache_stats stats_of(kmem_cache* cache) {
  struct kmem_cache_stats stats;
  kmem_cache_stats(cache, &stats);
  return stats;
}

// Two calls of kmem_update() begin and end an interval. When free memory is low, the task `memory`
// reaps the magazines that depots have not used for an interval.
KTEST(memory_that_is_low_has_the_surplus_reaped) {
  constexpr size_t kObjects = 2'000;
  kmem_cache* const cache =
      kmem_cache_create("ktest_surplus", 64, 0, 0, nullptr, nullptr, nullptr, nullptr);
  auto** const objects = static_cast<void**>(kmalloc(kObjects * sizeof(void*), KM_SLEEP));
  EXPECT(cache && objects);
  for (size_t i = 0; i < kObjects; i++) objects[i] = kmem_cache_alloc(cache, KM_SLEEP);
  for (size_t i = 0; i < kObjects; i++) kmem_cache_free(cache, objects[i]);
  kfree(objects);
  kmem_update();  // begins an interval in which the magazines are idle
  kmem_update();
  const uint64_t full = stats_of(cache).depot_full;
  EXPECT(full > 0 && stats_of(cache).depot_surplus == full && stats_of(cache).depot_reaped == 0);
  Chain all;
  while (memory_totals().free > memory_totals().total / 64 && all.add(256 << 10, KM_ATOMIC))
    continue;
  const Nanoseconds deadline = monotonic_now() + Nanoseconds{10'000'000'000};
  while (stats_of(cache).depot_reaped < full && monotonic_now() < deadline)
    EXPECT(task_sleep_until(monotonic_now() + Nanoseconds{10'000'000}).ok());
  EXPECT(stats_of(cache).depot_reaped == full && stats_of(cache).depot_full == 0);
  all.free();
  expect_sound(cache, 0);
  kmem_cache_destroy(cache);
}
