#include "slab_world.h"

#include <sys/mman.h>

#include "arch/x86_64/paging.h"
#include "cpus.h"
#include "slab_os.h"
#include "slab_trace.h"

namespace {

class World : public testing::Environment {
  void SetUp() override { host::memory_start(host::kMemory); }
};
const auto* const world = testing::AddGlobalTestEnvironment(new World);

// ---- The trace hooks. One byte for each eight bytes of memory says whether an object that begins
// there has a record.

auto* const records =
    static_cast<std::atomic<uint8_t>*>(mmap(nullptr, host::kMemory / 4, PROT_READ | PROT_WRITE,
                                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));

}  // namespace

namespace host {

std::atomic<uint8_t>& record_of(const void* object) {
  return records[(reinterpret_cast<uintptr_t>(object) - kDirectMapBase) / 8];
}
std::atomic<uint64_t> recorded{0}, dropped{0}, unmatched{0}, destroyed{0};
std::atomic<size_t> last_requested{0};
std::atomic<const void*> last_frame{nullptr};

struct kmem_cache_stats stats_of(kmem_cache* cache) {
  struct kmem_cache_stats stats;
  kmem_cache_stats(cache, &stats);
  return stats;
}

void expect_sound(kmem_cache* cache, uint64_t live) {
  const char* const wrong = kmem_cache_verify(cache);
  ASSERT_EQ(wrong, nullptr) << wrong;
  const struct kmem_cache_stats stats = stats_of(cache);
  ASSERT_EQ(stats.live, live);
  ASSERT_EQ(stats.allocations - stats.frees, live);
  ASSERT_EQ(stats.objects_out, live + stats.magazine_rounds);
  ASSERT_LE(stats.objects_out, stats.objects_in_slabs);
  ASSERT_EQ(stats.hash_items, stats.hash_buckets ? stats.objects_out : 0);
}

}  // namespace host

void* slab_trace_alloc(kmem_cache* cache, void* object, size_t requested, const void* frame,
                       uint64_t saved) {
  EXPECT_NE(object, nullptr);
  EXPECT_TRUE(host_cpu.interrupts_off);
  EXPECT_FALSE(kmem_cache_flags(cache) & KMC_NOTRACE);
  EXPECT_EQ(host::record_of(object).exchange(1), 0) << "two records of one object";
  host::recorded++;
  host::last_requested = requested;
  host::last_frame = frame;
  slab_os_irq_restore(saved);
  return object;
}
void slab_trace_free(kmem_cache*, void* object, uint64_t saved) {
  EXPECT_TRUE(host_cpu.interrupts_off);
  if (host::record_of(object).exchange(0))
    host::dropped++;
  else
    host::unmatched++;
  slab_os_irq_restore(saved);
}
void slab_trace_report_live(kmem_cache*, uint64_t) {}
void slab_trace_destroy(kmem_cache*) {
  host::destroyed++;
}
