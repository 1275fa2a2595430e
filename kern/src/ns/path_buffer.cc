#include "ns/path_buffer.h"

#include "kmalloc.h"
#include "slab.h"

namespace {

constinit kmem_cache* cache = nullptr;

}  // namespace

Result<void> PathBuffer::fill() {
  if (memory_) return {};
  memory_ = static_cast<Memory*>(kmem_cache_alloc(cache, KM_SLEEP));
  if (!memory_) return Errno::ENOMEM;
  return {};
}

void PathBuffer::give_back(Memory* memory) {
  kmem_cache_free(cache, memory);
}

void path_buffers_init() {
  cache = kmem_cache_create("path", sizeof(PathBuffer::Memory), alignof(PathBuffer::Memory),
                            KMC_NOTRACE, nullptr, nullptr, nullptr, nullptr);
  if (!cache) panic_no_cache("path");
}
