#include "trace/record/slow_free_impl.h"

#include "core/cpu.h"
#include "core/probe_guard.h"
#include "intern/kernel_stacks.h"
#include "slab_os.h"

NOT_PROBED void trace_free_slowly(TraceTable* table, const void* object, uint64_t saved) {
  const StackId stack = table->counts_frees()
                            ? find_callers(__builtin_frame_address(0), table->depth())
                            : StackId::kNone;
  table->forget(reinterpret_cast<uint64_t>(object), cpu_id(), stack);
  slab_os_irq_restore(saved);
}
