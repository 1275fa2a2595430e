// Allocation and free in traced arenas, through their quantum caches.
//
// Fast path: for an allocation the CPU's magazine has an object, for a free it has room. The object
// and its trace record are then handled in one interrupts-off region, which the hook ends. This
// costs little more than an untraced allocation. All other cases go through arena.cc, in two
// interrupts-off regions. The quantum cache itself has the flags KMC_NOTRACE and KMC_QCACHE: it is
// never traced or checked, and gets no injected failures.
#include "arena_impl.h"
#include "core/probe_guard.h"
#include "slab_impl.h"
#include "slab_os.h"
#include "slab_trace.h"

namespace {

// True if the fast path exists. With CONFIG_KASAN it does not exist, because each allocation must
// then go through slab_magazine.c, which delays the reuse of freed objects.
#ifdef CONFIG_KASAN
constexpr bool kAtHand = false;
#else
constexpr bool kAtHand = true;
#endif

}  // namespace

NOT_PROBED ALLOCATOR_TEXT void* arena_impl::alloc_traced(struct arena& arena, size_t quanta,
                                                         size_t size, const void* frame,
                                                         int flags) {
  if (!kAtHand || !is_cached(arena, quanta)) return alloc_anyhow(arena, size, flags, frame);
  if constexpr (SLAB_OS_CHECK_CALLS) check_sleep(arena, flags);
  const uint64_t saved = slab_os_irq_save();
  kmem_cpu* const cpu = cpu_part(quantum_cache(arena, quanta));
  if (cpu->rounds == 0 || !has_flag(arena, KMC_TRACED)) [[unlikely]] {
    slab_os_irq_restore(saved);
    return alloc_anyhow(arena, size, flags, frame);
  }
  void* const address = magazine_pop(cpu);
  slab_os_count(&cpu->allocations, 1);
  if constexpr (SLAB_OS_CHECK_CALLS) note_cached(arena, address, quanta, true);
  return arena_trace_alloc(trace_of(arena), address, size, frame, saved);
}

// The hook drops the record in the same interrupts-off region in which the address enters the
// magazine. So nobody can allocate the address before the record is dropped.
NOT_PROBED ALLOCATOR_TEXT void arena_impl::free_traced(struct arena& arena, void* address,
                                                       size_t quanta) {
  if (!kAtHand || !is_cached(arena, quanta)) return free_anyhow(arena, address, quanta);
  const uint64_t saved = slab_os_irq_save();
  kmem_cpu* const cpu = cpu_part(quantum_cache(arena, quanta));
  if (cpu->rounds == cpu->capacity || !has_flag(arena, KMC_EVER_TRACED)) [[unlikely]] {
    slab_os_irq_restore(saved);
    return free_anyhow(arena, address, quanta);
  }
  if constexpr (SLAB_OS_CHECK_CALLS) note_cached(arena, address, quanta, false);
  magazine_push(cpu, address);
  slab_os_count(&cpu->frees, 1);
  arena_trace_free(trace_of(arena), address, saved);
}
