#include "slab_check_world.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <set>
#include <vector>

#include "slab_trace.h"

namespace {

using testing::AssertionFailure;
using testing::AssertionResult;
using testing::AssertionSuccess;

class World : public testing::Environment {
  void SetUp() override { host::memory_start(64 << 20); }
};
const auto* const world = testing::AddGlobalTestEnvironment(new World);

std::mutex records_mutex;
std::set<const void*> recorded;

}  // namespace

namespace host {

std::atomic<uint64_t> twice{0}, unmatched{0};
size_t records() {
  std::lock_guard guard(records_mutex);
  return recorded.size();
}

struct kmem_cache_stats stats_of(kmem_cache* cache) {
  struct kmem_cache_stats stats;
  kmem_cache_stats(cache, &stats);
  return stats;
}

AssertionResult sound(kmem_cache* cache, uint64_t live) {
  if (const char* const wrong = kmem_cache_verify(cache)) return AssertionFailure() << wrong;
  const struct kmem_cache_stats stats = stats_of(cache);
  if (stats.live != live)
    return AssertionFailure() << stats.live << " objects are live, not " << live;
  if (stats.objects_out != live + stats.magazine_rounds)
    return AssertionFailure() << stats.objects_out << " objects are out, " << stats.magazine_rounds
                              << " in magazines";
  return AssertionSuccess();
}

AssertionResult said(std::initializer_list<const char*> parts) {
  const std::string log = host::take_log();
  size_t at = 0;
  for (const char* part : parts) {
    at = log.find(part, at);
    if (at == log.npos)
      return AssertionFailure() << "no \"" << part << "\" (in this order) in\n" << log;
  }
  return AssertionSuccess();
}
AssertionResult said_nothing() {
  const std::string log = host::take_log();
  return log.empty() ? AssertionSuccess() : AssertionFailure() << log;
}

std::atomic<int64_t> constructed{0}, broken{0};

namespace {

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

}  // namespace

kmem_cache* make_cache(const Shape& shape, arena* source) {
  return kmem_cache_create("victim", shape.size, shape.align, shape.flags, source,
                           shape.constructed ? construct : nullptr,
                           shape.constructed ? destruct : nullptr,
                           reinterpret_cast<void*>(shape.size));
}

AssertionResult Check::quarantined(const void* object) {
  const uint64_t live = stats_of(cache_).live;
  if (stats_of(cache_).quarantined != 1)
    return AssertionFailure() << stats_of(cache_).quarantined << " quarantined";
  std::vector<void*> objects(300);
  for (void*& other : objects) other = alloc(1);
  const bool again = std::find(objects.begin(), objects.end(), object) != objects.end();
  for (void* other : objects) free(other, 1);
  if (again) return AssertionFailure() << "it was allocated again";
  return sound(cache_, live);
}

INSTANTIATE_TEST_SUITE_P(All, Check,
                         testing::Values(Shape{24, 0, 0, false}, Shape{64, 64, 0, false},
                                         Shape{100, 16, 0, true}, Shape{512, 0, 0, false},
                                         Shape{1024, 0, 0, false}, Shape{1500, 128, 0, true},
                                         Shape{4096, 4096, 0, false}, Shape{5000, 0, 0, true},
                                         Shape{64, 0, KMC_NOMAGAZINE, false}),
                         [](const testing::TestParamInfo<Shape>& info) {
                           return std::to_string(info.param.size) + "_" +
                                  std::to_string(info.param.align) + "_" +
                                  std::to_string(info.param.flags);
                         });

}  // namespace host

void* slab_trace_alloc(kmem_cache*, void* object, size_t, const void*, uint64_t saved) {
  {
    std::lock_guard guard(records_mutex);
    if (!recorded.insert(object).second) host::twice++;
  }
  slab_os_irq_restore(saved);
  return object;
}
void slab_trace_free(kmem_cache*, void* object, uint64_t saved) {
  {
    std::lock_guard guard(records_mutex);
    if (recorded.erase(object) == 0) host::unmatched++;
  }
  slab_os_irq_restore(saved);
}
void slab_trace_report_live(kmem_cache*, uint64_t) {}
void slab_trace_destroy(kmem_cache*) {}
