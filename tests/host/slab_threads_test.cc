// The slab allocator, kmalloc and the arenas under ThreadSanitizer, with the simulated CPUs of
// cpus/sections.cc.

#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <random>
#include <vector>

#include "arena.h"
#include "cpus.h"
#include "kmalloc.h"
#include "slab.h"
#include "slab_os.h"
#include "slab_trace.h"

namespace {

constexpr unsigned kCpus = 4;

class World : public testing::Environment {
  void SetUp() override { host::memory_start(64 << 20); }
};
const auto* const world = testing::AddGlobalTestEnvironment(new World);

std::atomic<uint64_t> recorded{0}, forgotten{0};

}  // namespace

void* slab_trace_alloc(kmem_cache*, void* object, size_t, const void*, uint64_t saved) {
  recorded++;
  slab_os_irq_restore(saved);
  return object;
}
void slab_trace_free(kmem_cache*, void*, uint64_t saved) {
  forgotten++;
  slab_os_irq_restore(saved);
}
void slab_trace_report_live(kmem_cache*, uint64_t) {}
void slab_trace_destroy(kmem_cache*) {}

namespace {

struct kmem_cache_stats stats_of(kmem_cache* cache) {
  struct kmem_cache_stats stats;
  kmem_cache_stats(cache, &stats);
  return stats;
}

// Objects of some caches. Each byte of an object is the index of its cache. The allocating thread
// writes all bytes and the freeing thread reads them, without atomics. So ThreadSanitizer reports a
// race if two threads have the same object.
class Crowd {
 public:
  explicit Crowd(std::vector<kmem_cache*> caches) : caches_(std::move(caches)) {}
  ~Crowd() {
    for (auto& slot : exchange_) free(slot.exchange(nullptr));
    EXPECT_EQ(broken_, 0);
    for (kmem_cache* cache : caches_) {
      const char* const wrong = kmem_cache_verify(cache);
      EXPECT_EQ(wrong, nullptr) << wrong;
      const struct kmem_cache_stats stats = stats_of(cache);
      EXPECT_EQ(stats.live, 0u);
      EXPECT_EQ(stats.objects_out, stats.magazine_rounds);
      kmem_cache_destroy(cache);
    }
  }

  void work(unsigned cpu, int operations) {
    std::minstd_rand random(cpu + 1);
    std::vector<unsigned char*> mine;
    for (int i = 0; i < operations; i++) {
      const unsigned what = random() % 8;
      if (what < 4) {
        if (unsigned char* object = alloc(random() % caches_.size())) mine.push_back(object);
      } else if (!mine.empty()) {
        std::swap(mine[random() % mine.size()], mine.back());
        unsigned char* const object = mine.back();
        mine.pop_back();
        // Three of four times, free the object. One of four times, put the object into a slot of
        // exchange_, and free the object that was in this slot. Another CPU may have put it there.
        free(what == 4 ? exchange_[random() % exchange_.size()].exchange(object) : object);
      }
      // Free all objects when there are more than 300. So magazines, depot and slabs are filled and
      // emptied again and again.
      if (mine.size() > 300) {
        for (unsigned char* object : mine) free(object);
        mine.clear();
      }
    }
    for (unsigned char* object : mine) free(object);
  }

  // Runs work() on kCpus CPUs, while one more CPU calls meanwhile() kRounds times.
  template <typename Function>
  void run(Function meanwhile) {
    std::atomic<bool> done{false};
    host::run_cpus(kCpus + 1, [&](unsigned cpu) {
      if (cpu == kCpus) {
        for (int i = 0; i < kRounds; i++) meanwhile();
        done = true;
      } else {
        while (!done) work(cpu, 1'000);
      }
    });
  }

  const std::vector<kmem_cache*>& caches() const { return caches_; }

 private:
  static constexpr int kRounds = 60;

  unsigned char* alloc(unsigned which) {
    auto* const object = static_cast<unsigned char*>(kmem_cache_alloc(caches_[which], KM_ATOMIC));
    if (object)
      std::fill_n(object, kmem_cache_object_size(caches_[which]),
                  static_cast<unsigned char>(which));
    return object;
  }
  void free(unsigned char* object) {
    if (!object) return;
    const unsigned which = object[0];
    const size_t size = kmem_cache_object_size(caches_[which]);
    if (!std::all_of(object, object + size, [&](unsigned char byte) { return byte == which; }))
      broken_++;
    kmem_cache_free(caches_[which], object);
  }

  std::vector<kmem_cache*> caches_;
  std::array<std::atomic<unsigned char*>, 32> exchange_{};
  std::atomic<int> broken_{0};
};

kmem_cache* make(size_t size, int flags) {
  return kmem_cache_create("threads", size, 0, flags, nullptr, nullptr, nullptr, nullptr);
}

std::vector<kmem_cache*> some_caches() {
  return {make(64, 0), make(1024, 0), make(48, KMC_NOTOUCH), make(200, KMC_NOMAGAZINE)};
}

TEST(SlabThreads, CpusAllocateFreeAndLookOn) {
  Crowd crowd(some_caches());
  crowd.run([&] {
    for (kmem_cache* cache = kmem_cache_next(nullptr); cache; cache = kmem_cache_next(cache)) {
      const struct kmem_cache_stats stats = stats_of(cache);
      EXPECT_LE(stats.objects_out, stats.objects_in_slabs);
      EXPECT_LE(stats.frees, stats.allocations);
    }
    for (kmem_cache* cache : crowd.caches()) EXPECT_EQ(kmem_cache_verify(cache), nullptr);
  });
}

TEST(SlabThreads, MagazinesAreReapedAndDrainedMeanwhile) {
  Crowd crowd(some_caches());
  crowd.run([&] {
    kmem_reap();
    slab_os_on_each_cpu([](void*) { kmem_drain_cpu(); }, nullptr);
  });
}

TEST(SlabThreads, MagazinesGrowAndSurplusIsReapedMeanwhile) {
  Crowd crowd(some_caches());
  host::contend(50);
  int round = 0;
  crowd.run([&] {
    // In each of the first three intervals, wait until the depot lock of the first cache was
    // contended nine times. This is enough for kmem_update() to make the magazines larger.
    const uint64_t before = stats_of(crowd.caches()[0]).depot_contention;
    while (round < 3 && stats_of(crowd.caches()[0]).depot_contention < before + 9) sched_yield();
    kmem_update();
    kmem_reap_some(static_cast<kmem_reap_extent>(round++ % 3));
  });
  host::contend(0);
  EXPECT_GT(stats_of(crowd.caches()[0]).magazine_resizes, 0u);
}

struct Round {
  const std::vector<kmem_cache*>& caches;
  int set, clear;
};

void change_flags(const std::vector<kmem_cache*>& caches, int set, int clear) {
  Round round{caches, set, clear};
  for (kmem_cache* cache : caches) kmem_cache_master_flags(cache, set, clear);
  slab_os_on_each_cpu(
      [](void* argument) {
        const Round& r = *static_cast<Round*>(argument);
        for (kmem_cache* cache : r.caches) kmem_cache_cpu_flags(cache, r.set, r.clear);
      },
      &round);
}

TEST(SlabThreads, TracesStartAndStopMeanwhile) {
  Crowd crowd(some_caches());
  crowd.run([&] {
    change_flags(crowd.caches(), KMC_EVER_TRACED, 0);
    change_flags(crowd.caches(), KMC_TRACED, 0);
    for (const uint64_t before = recorded; recorded == before;) sched_yield();
    change_flags(crowd.caches(), 0, KMC_TRACED);
    const uint64_t at_stop = recorded;
    for (int i = 0; i < 3; i++) kmem_reap();
    EXPECT_EQ(recorded, at_stop) << "no record appears after the round of stop";
    change_flags(crowd.caches(), 0, KMC_EVER_TRACED);
  });
  EXPECT_GT(forgotten, 0u);
}

TEST(SlabThreads, CheckingIsSwitchedMeanwhile) {
  Crowd crowd({make(64, 0), make(1024, 0), make(200, KMC_NOMAGAZINE)});
  crowd.run([&] {
    for (kmem_cache* cache : crowd.caches()) kmem_cache_check_start(cache);
    for (kmem_cache* cache : crowd.caches()) {
      EXPECT_EQ(kmem_cache_check_scan(cache), 0u);
      EXPECT_EQ(kmem_cache_verify(cache), nullptr);
    }
    for (kmem_cache* cache : crowd.caches()) kmem_cache_check_stop(cache);
    sched_yield();
  });
  EXPECT_EQ(host::take_log(), "");
}

TEST(SlabThreads, CachesComeAndGo) {
  host::run_cpus(kCpus, [&](unsigned) {
    for (int i = 0; i < 40; i++) {
      kmem_cache* const cache = make(64 + static_cast<size_t>(i) * 40, i % 2 ? KMC_NOTOUCH : 0);
      ASSERT_NE(cache, nullptr);
      std::vector<void*> objects;
      for (int j = 0; j < 100; j++) objects.push_back(kmem_cache_alloc(cache, KM_SLEEP));
      // Every fourth cache is destroyed while half of its objects are still allocated.
      const auto half = objects.begin() + objects.size() / 2;
      std::for_each(objects.begin(), half, [&](void* object) { kmem_cache_free(cache, object); });
      if (i % 4 == 0) kmem_cache_destroy(cache);
      std::for_each(half, objects.end(), [&](void* object) { kmem_cache_free(cache, object); });
      if (i % 4 != 0) kmem_cache_destroy(cache);
      if (kmem_cache* const found = kmem_cache_find("threads")) kmem_cache_release(found);
    }
  });
  host::take_log();
  EXPECT_EQ(kmem_cache_find("threads"), nullptr);
}

TEST(SlabThreads, KmallocAndArenas) {
  host::run_cpus(kCpus, [&](unsigned cpu) {
    std::minstd_rand random(cpu + 1);
    std::vector<std::pair<char*, size_t>> mine;
    for (int i = 0; i < 4'000; i++) {
      if (random() % 2 == 0 && mine.size() < 50) {
        const size_t size = random() % 8 == 0 ? 1 + random() % 40'000 : 1 + random() % 600;
        if (auto* const memory = static_cast<char*>(kmalloc(size, KM_SLEEP))) {
          memory[0] = memory[size - 1] = static_cast<char>(cpu);
          mine.emplace_back(memory, size);
        }
      } else if (!mine.empty()) {
        std::swap(mine[random() % mine.size()], mine.back());
        const auto [memory, size] = mine.back();
        mine.pop_back();
        EXPECT_EQ(memory[size - 1], static_cast<char>(cpu));
        kfree(memory);
      }
      if (i % 100 == 0) {
        struct arena_stats stats;
        for (arena* arena = arena_next(nullptr); arena; arena = arena_next(arena))
          arena_stats(arena, &stats);
      }
    }
    for (const auto& [memory, size] : mine) kfree(memory);
  });
}

}  // namespace
