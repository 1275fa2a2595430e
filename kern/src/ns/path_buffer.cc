#include "ns/path_buffer.h"

#include <bit>

#include "core/not_roots.h"
#include "core/spinlock.h"
#include "kmalloc.h"
#include "slab.h"

namespace {

constinit kmem_cache* cache = nullptr;
constexpr unsigned kReserve = 16;  // a call holds at most a few buffers
constinit Spinlock reserve_lock{LockRank::kDevice};
constinit unsigned reserve_free GUARDED_BY(reserve_lock) = (1U << kReserve) - 1;  // bit i: buffer i

}  // namespace

NOT_ROOTS constinit PathBuffer::Memory PathBuffer::reserve[kReserve] = {};

Result<void> PathBuffer::fill() {
  if (memory_) return {};
  memory_ = static_cast<Memory*>(kmem_cache_alloc(cache, KM_SLEEP));
  if (memory_) return {};
  const Guard guard(reserve_lock);
  if (!reserve_free) return Errno::ENOMEM;
  const int number = std::countr_zero(reserve_free);
  reserve_free &= reserve_free - 1;
  memory_ = &reserve[number];
  return {};
}

void PathBuffer::give_back(Memory* memory) {
  if (memory < reserve || memory >= reserve + kReserve) {
    kmem_cache_free(cache, memory);
    return;
  }
  const Guard guard(reserve_lock);
  reserve_free |= 1U << (memory - reserve);
}

void path_buffers_init() {
  cache = kmem_cache_create("path", sizeof(PathBuffer::Memory), alignof(PathBuffer::Memory),
                            KMC_NOTRACE | KMC_NOPOINTERS, nullptr, nullptr, nullptr, nullptr);
  if (!cache) panic_no_cache("path");
}
