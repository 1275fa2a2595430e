// Marks the records of objects that the kernel keeps intentionally (kmem_not_leak in slab.h).
#include "slab.h"
#include "slab_os.h"
#include "trace/control.h"

// Tests the flag and uses the table with interrupts off, as a hook does. The end of a trace clears
// the flag, interrupts every CPU and waits for this, before it frees the table. So the table exists
// until this function is done.
void kmem_not_leak(const void* object) {
  if (!object) return;
  kmem_cache* const cache = kmem_cache_of(object);
  const TraceSource source = cache ? TraceSource(cache) : TraceSource(page_arena);
  const uint64_t saved = slab_os_irq_save();
  if ((source.flags() & KMC_EVER_TRACED) != 0)
    trace_table_of(source)->note_not_leak(reinterpret_cast<uint64_t>(object));
  slab_os_irq_restore(saved);
}
