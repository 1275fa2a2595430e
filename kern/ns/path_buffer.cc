#include "ns/path_buffer.h"

#include <bit>

#include "core/not_roots.h"
#include "core/spinlock.h"
#include "kmalloc.h"
#include "slab.h"

namespace {

constinit Spinlock reserve_lock{LockRank::kDevice};
constinit uint16_t reserve_free GUARDED_BY(reserve_lock) = UINT16_MAX;  // bit i: buffer i

}  // namespace

NOT_ROOTS constinit PathBuffer::Memory PathBuffer::reserve[kReserve] = {};
constinit kmem_cache* PathBuffer::cache = nullptr;

Result<void> PathBuffer::take_of_reserve() {
  const Guard guard(reserve_lock);
  if (!reserve_free) return Errno::ENOMEM;
  const int number = std::countr_zero(reserve_free);
  reserve_free &= reserve_free - 1;
  memory_ = &reserve[number];
  return {};
}

void PathBuffer::give_back() {
  const Guard guard(reserve_lock);
  reserve_free |= 1U << (memory_ - reserve);
}

void path_buffers_init() {
  PathBuffer::cache =
      kmem_cache_create("path", sizeof(PathBuffer::Memory), alignof(PathBuffer::Memory),
                        KMC_NOTRACE | KMC_NOPOINTERS, nullptr, nullptr, nullptr, nullptr);
  if (!PathBuffer::cache) panic_no_cache("path");
}
