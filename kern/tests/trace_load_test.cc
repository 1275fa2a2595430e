// Traces all caches of the system under load, one by one and all at once. Afterwards each cache has
// as many live objects as before, and all trace memory is free.
#include <algorithm>
#include <atomic>

#include "core/boot.h"
#include "core/cpu.h"
#include "core/ktest.h"
#include "intern/trace_memory.h"
#include "kmalloc.h"
#include "tests/team.h"
#include "trace/trace.h"

namespace {

// Returns N if the kernel command line has `rounds=N`, which is meant for long runs. Otherwise
// returns `usual`.
unsigned rounds_wanted(unsigned usual) {
  size_t length = 0;
  const char* digits = boot_option("rounds", &length);
  unsigned rounds = 0;
  for (size_t i = 0; i < length && digits[i] >= '0' && digits[i] <= '9'; i++) {
    rounds = rounds * 10 + static_cast<unsigned>(digits[i] - '0');
  }
  return rounds > 0 ? rounds : usual;
}

bool load_stop;

// Keeps many caches busy: allocates objects of random sizes with kmalloc, and frees them.
void churn(void*) {
  void* objects[32] = {};
  while (!__atomic_load_n(&load_stop, __ATOMIC_RELAXED)) {
    void*& object = objects[ktest_random() % 32];
    kfree(object);
    object = kmalloc(1 + ktest_random() % 10'000, KM_SLEEP);
    if (ktest_random() % 64 == 0) task_yield();
  }
  for (void* object : objects) kfree(object);
}

// The live objects of each cache that can be traced, in order of creation.
class LiveCounts {
 public:
  LiveCounts() {
    for (kmem_cache* cache = kmem_cache_next(nullptr); cache; cache = kmem_cache_next(cache)) {
      if (kmem_cache_flags(cache) & KMC_NOTRACE) continue;
      struct kmem_cache_stats stats;
      kmem_cache_stats(cache, &stats);
      ASSERT(count_ < std::size(live_));
      live_[count_++] = stats.live;
    }
  }
  bool operator==(const LiveCounts& other) const {
    return std::equal(live_, live_ + count_, other.live_, other.live_ + other.count_);
  }

 private:
  uint64_t live_[128];
  size_t count_ = 0;
};

}  // namespace

KTEST(trace_every_cache_one_by_one_and_all_at_once_under_load) {
  EXPECT(trace_command_all("settle").ok());
  const LiveCounts before;
  load_stop = false;
  Team team(churn, nullptr);
  for (unsigned i = 0; i < 2 * cpu_count(); i++) team.add();
  const unsigned rounds = rounds_wanted(2);
  for (unsigned round = 0; round < rounds; round++) {
    for (kmem_cache* cache = kmem_cache_next(nullptr); cache; cache = kmem_cache_next(cache)) {
      const bool can_be_traced = !(kmem_cache_flags(cache) & KMC_NOTRACE);
      EXPECT(trace_command(cache, "start").ok() == can_be_traced);
    }
    EXPECT(trace_command_all("mark").ok());
    EXPECT(trace_command_all("stop").ok());
    EXPECT(trace_command_all("reset").ok());
    EXPECT(trace_command_all("start\nmark\nreset\nstop\nreset\n").ok());
  }
  __atomic_store_n(&load_stop, true, __ATOMIC_RELAXED);
  team.join();
  EXPECT(trace_command_all("settle").ok());
  EXPECT(LiveCounts() == before);
  EXPECT(trace_memory_used() == 0);
  for (kmem_cache* cache = kmem_cache_next(nullptr); cache; cache = kmem_cache_next(cache)) {
    EXPECT(!(kmem_cache_flags(cache) & (KMC_TRACED | KMC_EVER_TRACED)));
  }
}
