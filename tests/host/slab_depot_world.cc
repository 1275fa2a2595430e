#include "slab_depot_world.h"

#include "slab_os.h"
#include "slab_trace.h"

void* slab_trace_alloc(kmem_cache*, void* object, size_t, const void*, uint64_t saved) {
  slab_os_irq_restore(saved);
  return object;
}
void slab_trace_free(kmem_cache*, void*, uint64_t saved) {
  slab_os_irq_restore(saved);
}
void slab_trace_report_live(kmem_cache*, uint64_t) {}
void slab_trace_destroy(kmem_cache*) {}

namespace {

class World : public testing::Environment {
  void SetUp() override { host::memory_start(32 << 20); }
};
const auto* const world = testing::AddGlobalTestEnvironment(new World);

}  // namespace

struct kmem_cache_stats stats_of(kmem_cache* cache) {
  struct kmem_cache_stats stats;
  kmem_cache_stats(cache, &stats);
  return stats;
}

struct kmem_cache_stats stats_of(const char* name) {
  kmem_cache* const cache = kmem_cache_find(name);
  EXPECT_NE(cache, nullptr) << name;
  const struct kmem_cache_stats stats = stats_of(cache);
  kmem_cache_release(cache);
  return stats;
}

kmem_cache* make(const char* name, size_t size, arena* source) {
  return kmem_cache_create(name, size, 0, 0, source, nullptr, nullptr, nullptr);
}

std::vector<void*> allocate(kmem_cache* cache, size_t count) {
  std::vector<void*> objects(count);
  for (void*& object : objects) object = kmem_cache_alloc(cache, KM_ATOMIC);
  return objects;
}

void free_all(kmem_cache* cache, std::vector<void*>& objects) {
  for (void* object : objects) kmem_cache_free(cache, object);
  objects.clear();
}

void churn(kmem_cache* cache, size_t count) {
  std::vector<void*> objects = allocate(cache, count);
  free_all(cache, objects);
}

void expect_sound(kmem_cache* cache, uint64_t live) {
  const char* const wrong = kmem_cache_verify(cache);
  ASSERT_EQ(wrong, nullptr) << wrong;
  const struct kmem_cache_stats stats = stats_of(cache);
  ASSERT_EQ(stats.live, live);
  ASSERT_EQ(stats.objects_out, live + stats.magazine_rounds);
}
