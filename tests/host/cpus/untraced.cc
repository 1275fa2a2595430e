// The world of tests that need 64 MB of memory and no tracer.
#include <gtest/gtest.h>

#include "cpus.h"
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
  void SetUp() override { host::memory_start(64 << 20); }
};
const auto* const world = testing::AddGlobalTestEnvironment(new World);

}  // namespace
