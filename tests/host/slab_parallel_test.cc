// CPUs and interrupts use the same caches. In some tests, requests for slab memory fail meanwhile,
// or tracing is switched on and off.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <random>
#include <vector>

#include "cpus.h"
#include "slab.h"
#include "slab_os.h"
#include "slab_trace.h"
#include "slab_world.h"

namespace {

using host::dropped;
using host::expect_sound;
using host::last_frame;
using host::last_requested;
using host::record_of;
using host::recorded;
using host::Shape;
using host::stats_of;
using host::take_any;
using host::unmatched;

constexpr unsigned kCpus = 4;

struct Parallel {
  std::vector<kmem_cache*> caches;
  std::array<std::atomic<uint64_t>, 8> live{};
  // Objects that one CPU leaves for another.
  std::array<std::atomic<unsigned char*>, 256> exchange{};
  std::atomic<int> broken{0};

  size_t size_of(unsigned char* object) const { return kmem_cache_object_size(caches[object[0]]); }
  // Makes an object of cache number `which`, and fills it with that number.
  unsigned char* make(unsigned which) {
    auto* const object = static_cast<unsigned char*>(kmem_cache_alloc(caches[which], KM_ATOMIC));
    if (!object) return nullptr;
    live[which]++;
    memset(object, static_cast<int>(which), kmem_cache_object_size(caches[which]));
    return object;
  }
  void destroy(unsigned char* object) {
    if (!object) return;
    const unsigned which = object[0];
    const size_t size = kmem_cache_object_size(caches[which]);
    if (!std::all_of(object, object + size, [&](unsigned char byte) { return byte == which; }))
      broken++;
    memset(object, 0xdd, size);
    live[which]--;
    kmem_cache_free(caches[which], object);
  }
};
Parallel* parallel;

// For six random slots of `exchange`: puts a new object or null into the slot, and frees the object
// that was in the slot.
void interrupt_work() {
  thread_local std::minstd_rand random(host_cpu.id + 77);
  for (int i = 0; i < 6; i++) {
    auto& slot = parallel->exchange[random() % parallel->exchange.size()];
    unsigned char* const object =
        random() % 3 ? parallel->make(random() % parallel->caches.size()) : nullptr;
    parallel->destroy(slot.exchange(object));
  }
}

void cpu_work(unsigned cpu, int operations, unsigned round) {
  std::mt19937_64 random(cpu + 10 * round);
  std::vector<unsigned char*> mine;
  for (int i = 0; i < operations; i++) {
    switch (random() % 8) {
      case 0: {
        auto& slot = parallel->exchange[random() % parallel->exchange.size()];
        if (mine.empty()) break;
        parallel->destroy(slot.exchange(take_any(mine, random)));
        break;
      }
      case 1:
      case 2:
      case 3:
        if (!mine.empty()) parallel->destroy(take_any(mine, random));
        break;
      default:
        if (unsigned char* const object = parallel->make(random() % parallel->caches.size()))
          mine.push_back(object);
    }
    if (mine.size() > 400)
      while (mine.size() > 50) parallel->destroy(take_any(mine, random));
  }
  for (unsigned char* object : mine) parallel->destroy(object);
}

class SlabParallel : public testing::Test {
 protected:
  void SetUp() override {
    parallel = new Parallel;
    const Shape shapes[] = {{64, 0, 0},           {100, 0, 0},     {1024, 0, 0},
                            {48, 0, KMC_NOTOUCH}, {4096, 4096, 0}, {200, 0, KMC_NOMAGAZINE}};
    for (const Shape& shape : shapes)
      parallel->caches.push_back(kmem_cache_create("parallel", shape.size, shape.align, shape.flags,
                                                   nullptr, nullptr, nullptr, nullptr));
  }
  void TearDown() override {
    host::fail_pages(0);
    for (auto& slot : parallel->exchange) parallel->destroy(slot.exchange(nullptr));
    EXPECT_EQ(parallel->broken, 0);
    for (kmem_cache* cache : parallel->caches) {
      expect_sound(cache, 0);
      kmem_cache_destroy(cache);
    }
    EXPECT_EQ(host::take_log(), "");
    delete parallel;
  }
  void expect_all_sound() {
    for (size_t i = 0; i < parallel->caches.size(); i++)
      expect_sound(parallel->caches[i], parallel->live[i]);
    for (const char* name : {"kmem_slab", "kmem_bufctl", "kmem_magazine.128", "kmem_hash",
                             "kmem_cache", "page_4096"}) {
      kmem_cache* const cache = kmem_cache_find(name);
      ASSERT_NE(cache, nullptr) << name;
      expect_sound(cache, stats_of(cache).live);
      kmem_cache_release(cache);
    }
  }
};

TEST_F(SlabParallel, CountsStayExactWithInterrupts) {
  const uint64_t before = host::interrupts_taken();
  for (unsigned round = 0; round < 6; round++) {
    host::run_cpus(
        kCpus, [&](unsigned cpu) { cpu_work(cpu, 10'000, round); }, interrupt_work);
    ASSERT_NO_FATAL_FAILURE(expect_all_sound());
  }
  EXPECT_GT(host::interrupts_taken(), before + 100);
}

TEST_F(SlabParallel, NothingIsLostWhenMemoryFailsNowAndThen) {
  host::fail_pages(60);
  for (unsigned round = 0; round < 4; round++) {
    host::run_cpus(
        kCpus, [&](unsigned cpu) { cpu_work(cpu, 8'000, round); }, interrupt_work);
    ASSERT_NO_FATAL_FAILURE(expect_all_sound());
  }
}

TEST_F(SlabParallel, DrainingLeavesNothingInThisCpusMagazines) {
  host::run_cpus(
      kCpus,
      [&](unsigned cpu) {
        cpu_work(cpu, 3'000, 1);
        for (int i = 0; i < 5; i++) {
          slab_os_on_each_cpu([](void*) { kmem_drain_cpu(); }, nullptr);
          cpu_work(cpu, 300, i);
        }
      },
      interrupt_work);
  slab_os_on_each_cpu([](void*) { kmem_drain_cpu(); }, nullptr);
  ASSERT_NO_FATAL_FAILURE(expect_all_sound());
}

// ---- Requirements of tracing.

void round_of_flags(kmem_cache* cache, int set, int clear) {
  struct Round {
    kmem_cache* cache;
    int set, clear;
  } round{cache, set, clear};
  kmem_cache_master_flags(cache, set, clear);
  slab_os_on_each_cpu(
      [](void* argument) {
        const Round& r = *static_cast<Round*>(argument);
        kmem_cache_cpu_flags(r.cache, r.set, r.clear);
      },
      &round);
}

TEST_F(SlabParallel, EveryAllocationBetweenStartAndStopHasARecordUntilItIsFreed) {
  for (unsigned round = 0; round < 6; round++) {
    recorded = dropped = unmatched = 0;
    host::run_cpus(
        kCpus,
        [&](unsigned cpu) {
          if (cpu > 0) return cpu_work(cpu, 8'000, round);
          cpu_work(0, 500, round);
          for (kmem_cache* cache : parallel->caches) round_of_flags(cache, KMC_EVER_TRACED, 0);
          for (kmem_cache* cache : parallel->caches) round_of_flags(cache, KMC_TRACED, 0);
          // Now tracing is on for all CPUs and caches, so each allocated object gets a record.
          for (unsigned which = 0; which < parallel->caches.size(); which++) {
            std::vector<unsigned char*> objects;
            for (int i = 0; i < 200; i++) objects.push_back(parallel->make(which));
            for (unsigned char* object : objects) ASSERT_EQ(record_of(object), 1);
            // Another CPU may allocate an object again at once, so its record cannot be checked
            // after the free. The counts of records made and removed are compared below.
            for (unsigned char* object : objects) parallel->destroy(object);
          }
          cpu_work(0, 2'000, round + 50);
          for (kmem_cache* cache : parallel->caches) round_of_flags(cache, 0, KMC_TRACED);
        },
        interrupt_work);
    const uint64_t at_stop = recorded;
    for (auto& slot : parallel->exchange) parallel->destroy(slot.exchange(nullptr));
    host::run_cpus(kCpus, [&](unsigned cpu) { cpu_work(cpu, 500, round); });
    EXPECT_EQ(recorded, at_stop) << "no record appears after stop has returned";
    EXPECT_EQ(recorded, dropped) << "each record is dropped when its object is freed";
    EXPECT_GT(recorded, 1'000u);
    for (kmem_cache* cache : parallel->caches) round_of_flags(cache, 0, KMC_EVER_TRACED);
    ASSERT_NO_FATAL_FAILURE(expect_all_sound());
  }
}

TEST(Slab, HooksGetTheRequestedSizeAndTheFrameOfTheEntry) {
  kmem_cache* const cache =
      kmem_cache_create("requested", 96, 0, 0, nullptr, nullptr, nullptr, nullptr);
  round_of_flags(cache, KMC_EVER_TRACED | KMC_TRACED, 0);
  EXPECT_TRUE(kmem_cache_flags(cache) & KMC_TRACED);
  for (const int flags : {int{KM_ATOMIC}, int{KM_ZERO}}) {
    void* const a = kmem_cache_alloc_sized(cache, 70, flags);
    EXPECT_EQ(last_requested, 70u);
    EXPECT_LT(last_frame.load(), __builtin_frame_address(0));
    void* const b = kmem_cache_alloc(cache, flags);
    EXPECT_EQ(last_requested, 96u);
    kmem_cache_free(cache, a);
    kmem_cache_free(cache, b);
  }
  const uint64_t before = recorded;
  host::fail_pages(100);
  std::vector<void*> objects;
  while (void* const object = kmem_cache_alloc(cache, KM_ATOMIC)) objects.push_back(object);
  EXPECT_EQ(recorded, before + objects.size()) << "NULL is not recorded";
  host::fail_pages(0);
  for (void* object : objects) kmem_cache_free(cache, object);
  round_of_flags(cache, 0, KMC_EVER_TRACED | KMC_TRACED);
  kmem_cache_destroy(cache);
}

}  // namespace
