// Tests that the search for unreachable objects (reach/reach.h) takes no bytes for pointers where
// the kernel keeps only bytes.
#include <algorithm>
#include <iterator>
#include <utility>

#include "core/ktest.h"
#include "kmalloc.h"
#include "lib/string.h"
#include "slab.h"
#include "tests/lost_object.h"

namespace {

// A root: memory that is filled with the address of an object.
constinit void* filled = nullptr;
struct Filling {
  void* (*allocate)(size_t size, int flags);
  size_t size;
  Hidden object;
};
void fill(void* argument) {
  const auto& filling = *static_cast<const Filling*>(argument);
  filled = filling.allocate(filling.size, KM_SLEEP);
  std::fill_n(static_cast<uint64_t*>(filled), filling.size / sizeof(uint64_t),
              filling.object.value());
}

// A cache whose objects are a pointer and a payload.
struct Kept {
  uint64_t word = 0;
};
constexpr size_t kWithPayload = sizeof(Kept) + 120;
constinit kmem_cache* with_payload = nullptr;
void* allocate_in_payload(size_t, int flags) {
  return static_cast<Kept*>(kmem_cache_alloc(with_payload, flags)) + 1;
}
void* allocate_before_payload(size_t, int flags) {
  return kmem_cache_alloc(with_payload, flags);
}

}  // namespace

// Would find a search that takes the bytes of names, texts and transfers for pointers: a lost
// object whose address is among these bytes would not be listed.
KTEST(reach_no_pointers_in_bytes) {
  const Hidden object = make_object();
  for (const size_t size : {16u, 96u, 2048u, 8192u, 20'000u, 100'000u}) {
    Filling filling{kmalloc_bytes, size, object};
    in_another_task(fill, &filling);
    EXPECT(is_found_in_time(object));
    EXPECT(kmalloc_usable_size(filled) >= size);
    kfree(std::exchange(filled, nullptr));
    filling.allocate = kmalloc;
    in_another_task(fill, &filling);
    EXPECT(!is_found(object));
    memset(filled, 0, size);
    kfree(std::exchange(filled, nullptr));
  }
  free_object(object);
}

KTEST(reach_no_pointers_in_a_payload) {
  const Hidden object = make_object();
  with_payload =
      kmem_cache_create("ktest_payload", kWithPayload, 0, 0, nullptr, nullptr, nullptr, nullptr);
  EXPECT(with_payload);
  kmem_cache_set_payload(with_payload, kWithPayload - sizeof(Kept));
  Filling filling{allocate_in_payload, kWithPayload - sizeof(Kept), object};
  in_another_task(fill, &filling);
  EXPECT(is_found_in_time(object));
  kmem_cache_free(with_payload, static_cast<Kept*>(std::exchange(filled, nullptr)) - 1);
  filling = {allocate_before_payload, sizeof(Kept), object};
  in_another_task(fill, &filling);
  EXPECT(!is_found(object));
  *static_cast<uint64_t*>(filled) = 0;
  kmem_cache_free(with_payload, std::exchange(filled, nullptr));
  kmem_cache_destroy(std::exchange(with_payload, nullptr));
  free_object(object);
}
