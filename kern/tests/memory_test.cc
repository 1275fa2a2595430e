// The allocator on the live system: caches are sound, and memory can run out. trace_proof_test.cc
// has tasks and interrupts on all CPUs that allocate, exchange and free objects.
#include "core/ktest.h"
#include "kmalloc.h"
#include "pages.h"

KTEST(memory_all_caches_of_the_system_are_sound) {
  for (kmem_cache* cache = kmem_cache_next(nullptr); cache; cache = kmem_cache_next(cache)) {
    const char* const wrong = kmem_cache_verify(cache);
    if (wrong) klog("%s: %s", kmem_cache_name(cache), wrong);
    EXPECT(!wrong);
  }
}

// A list of allocations, each of which points to the previous one.
struct Chain {
  void* last = nullptr;
  uint64_t bytes = 0;

  bool add(size_t size, int flags) {
    void* const memory = kmalloc(size, flags);
    if (!memory) return false;
    *static_cast<void**>(memory) = last;
    last = memory;
    bytes += size;
    return true;
  }
  void free() {
    while (last) {
      void* const next = *static_cast<void**>(last);
      kfree(last);
      last = next;
    }
  }
};

// Takes all memory that atomic allocations can get. Nothing breaks, and the memory can be used for
// other sizes after it is freed.
KTEST(memory_runs_out_and_comes_back) {
  kmem_reap();
  const uint64_t before = memory_totals().free;
  Chain all;
  for (size_t size = 1 << 20; size >= 64; size /= 2) {
    while (all.add(size, KM_ATOMIC)) continue;
  }
  EXPECT(all.bytes > before / 4 * 3);
  all.free();
  Chain large;
  while (large.bytes < before / 4 * 3 && large.add(256 << 10, KM_SLEEP)) continue;
  EXPECT(large.bytes >= before / 4 * 3);
  large.free();
  kmem_reap();
  EXPECT(memory_totals().free > before - before / 64);
}
