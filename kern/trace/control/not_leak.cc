// Marks the records of objects that the kernel keeps intentionally (kmem_not_leak in slab.h).
#include "slab.h"
#include "slab_os.h"
#include "trace/control/control.h"

// Like a hook, tests KMC_EVER_TRACED and uses the table in one interrupts-off region. The end of a
// trace clears this flag, interrupts every CPU, and frees the table after all CPUs have handled the
// interrupt. So the table exists until this CPU turns interrupts on again.
void kmem_not_leak(const void* object) {
  if (!object) return;
  kmem_cache* const cache = kmem_cache_of(object);
  const TraceSource source = cache ? TraceSource(cache) : TraceSource(page_arena);
  const uint64_t saved = slab_os_irq_save();
  if ((source.flags() & KMC_EVER_TRACED) != 0)
    trace_table_of(source)->note_not_leak(reinterpret_cast<uint64_t>(object));
  slab_os_irq_restore(saved);
}
