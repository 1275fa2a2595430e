// The hooks that are called when a reference of a traced kind is taken or put (core/ref.h).
//
// A reference is recorded as if it were an object of an arena. The record's address is the number
// of the reference. The record's size encodes the address of the object to which the reference
// points (TraceTable::place_of).
#include "core/cpu.h"
#include "core/ref.h"
#include "slab_os.h"
#include "slab_trace.h"
#include "trace/record/table.h"

namespace {

RefCounts& counts_of(RefKind kind) {
  return this_cpu().refs[static_cast<unsigned>(kind)];
}

}  // namespace

ALLOCATOR_TEXT uint64_t ref_trace_take(RefKind kind, const void* object) {
  const uint64_t saved = slab_os_irq_save();
  if ((counts_of(kind).taken & kRefTraced) == 0) [[unlikely]] {
    slab_os_irq_restore(saved);
    return 0;
  }
  const uint64_t number = this_cpu().last_ref += 1u << kStampCpuBits;
  return reinterpret_cast<uint64_t>(
      arena_trace_alloc(ref_class(kind).trace, reinterpret_cast<void*>(number),
                        TraceTable::place_of(object), __builtin_frame_address(0), saved));
}

// Does nothing if the kind is no longer traced: the trace may have ended since the reference was
// taken.
ALLOCATOR_TEXT void ref_trace_put(RefKind kind, uint64_t number) {
  const uint64_t saved = slab_os_irq_save();
  if ((counts_of(kind).put & kRefTraced) == 0) [[unlikely]]
    return slab_os_irq_restore(saved);
  arena_trace_free(ref_class(kind).trace, reinterpret_cast<void*>(number), saved);
}
