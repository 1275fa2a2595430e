// Run-time checking of caches on the live system. Checking is switched on and off, and caches are
// scanned and traced, while other CPUs and interrupts allocate and free.
#include <array>
#include <atomic>

#include "arch/x86_64/trap.h"
#include "core/ktest.h"
#include "core/log.h"
#include "kmalloc.h"
#include "lib/string.h"
#include "tests/team.h"

namespace {

constexpr uint8_t kVector = 0xf4, kCrimeVector = 0xf6;
constexpr unsigned kTasks = 3;
constexpr unsigned kRounds = 8;
constexpr std::array<size_t, 3> kSizes = {48, 1000, 4096};

struct Shared {
  std::array<kmem_cache*, kSizes.size()> caches;
  std::array<std::atomic<int64_t>, kSizes.size()> live;
  std::array<std::atomic<uint8_t*>, 48> exchange;
  std::atomic<uint32_t> interrupts;
  std::atomic<uint32_t> operations;
  std::atomic<bool> stop;
};
constinit Shared shared{};

// Slot i of `shared.exchange` has objects of cache i % kSizes.size().
void exchange(uint32_t random) {
  const size_t slot = random % shared.exchange.size(), which = slot % kSizes.size();
  uint8_t* object = nullptr;
  if (random & 0x1000) {
    object = static_cast<uint8_t*>(kmem_cache_alloc(shared.caches[which], KM_ATOMIC));
    if (object) {
      shared.live[which]++;
      memset(object, static_cast<int>(random), kSizes[which]);
    }
  }
  object = shared.exchange[slot].exchange(object);
  if (!object) return;
  shared.live[which]--;
  kmem_cache_free(shared.caches[which], object);
}

void work(void*) {
  uint64_t state = ktest_random();
  for (unsigned i = 0; !shared.stop; i++) {
    state = state * 6364136223846793005 + 1442695040888963407;
    exchange(static_cast<uint32_t>(state >> 33));
    if (i % 16 == 0) interrupt_raise_self(kVector);
    if (i % 64 == 0) task_yield();
    shared.operations++;
  }
}

void on_interrupt(TrapFrame&, void*) {
  exchange(shared.interrupts++ * 2654435761);
}

void expect_sound(kmem_cache* cache, uint64_t live) {
  if (const char* const wrong = kmem_cache_verify(cache)) {
    klog("%s: %s", kmem_cache_name(cache), wrong);
    EXPECT(!"the cache is sound");
  }
  struct kmem_cache_stats stats;
  kmem_cache_stats(cache, &stats);
  EXPECT(stats.live == live);
  EXPECT(stats.objects_out == live + stats.magazine_rounds);
  EXPECT(stats.reports == 0 && stats.quarantined == 0);
}

}  // namespace

KTEST(memory_check_switches_under_load) {
  for (size_t i = 0; i < kSizes.size(); i++) {
    shared.caches[i] =
        kmem_cache_create("ktest_check", kSizes[i], 0, 0, nullptr, nullptr, nullptr, nullptr);
    EXPECT(shared.caches[i]);
  }
  EXPECT(interrupt_register_vector(kVector, "ktest_check", on_interrupt, nullptr).ok());
  Team team(work, nullptr);
  for (unsigned i = 0; i < kTasks; i++) team.add();
  // Waits until the tasks have worked: a round without their work would test nothing.
  const auto let_work = [] {
    for (const uint32_t before = shared.operations; shared.operations - before < 100;) task_yield();
  };
  for (unsigned round = 0; round < kRounds; round++) {
    for (kmem_cache* cache : shared.caches) {
      kmem_cache_check_start(cache);
      EXPECT(kmem_trace_start(cache, nullptr) == 0);
      EXPECT(kmem_cache_check_scan(cache) == 0);
    }
    let_work();
    for (kmem_cache* cache : shared.caches) {
      EXPECT(kmem_trace_stop(cache) == 0);
      kmem_cache_check_stop(cache);
      EXPECT(kmem_trace_reset(cache) == 0);
    }
    let_work();
  }
  shared.stop = true;
  team.join();
  EXPECT(shared.interrupts > 0);
  for (size_t i = 0; i < kSizes.size(); i++)
    expect_sound(shared.caches[i], static_cast<uint64_t>(shared.live[i]));
  for (uint32_t slot = 0; slot < shared.exchange.size(); slot++) {
    if (uint8_t* object = shared.exchange[slot].exchange(nullptr)) {
      kmem_cache_free(shared.caches[slot % kSizes.size()], object);
    }
  }
  for (kmem_cache* cache : shared.caches) {
    expect_sound(cache, 0);
    kmem_cache_destroy(cache);
  }
}

KTEST(memory_check_refuses_a_double_free) {
  kmem_cache* const cache =
      kmem_cache_create("ktest_check", 64, 0, 0, nullptr, nullptr, nullptr, nullptr);
  kmem_cache_check_start(cache);
  static std::atomic<void*> freed_in_interrupt;
  const auto free_it = [](TrapFrame&, void* argument) {
    kmem_cache_free(static_cast<kmem_cache*>(argument), freed_in_interrupt);
    freed_in_interrupt = nullptr;
  };
  EXPECT(interrupt_register_vector(kCrimeVector, "ktest_crime", free_it, cache).ok());
  void* const object = kmem_cache_alloc(cache, KM_SLEEP);
  kmem_cache_free(cache, object);
  freed_in_interrupt = object;
  interrupt_raise_self(kCrimeVector);
  while (freed_in_interrupt) asm volatile("pause");
  struct kmem_cache_stats stats;
  kmem_cache_stats(cache, &stats);
  EXPECT(stats.live == 0 && stats.reports == 1 && stats.quarantined == 1);
  for (int i = 0; i < 40; i++) {
    void* const other = kmem_cache_alloc(cache, KM_SLEEP);
    EXPECT(other && other != object);
    kmem_cache_free(cache, other);
  }
  EXPECT(!kmem_cache_verify(cache));
  kmem_cache_destroy(cache);
}
