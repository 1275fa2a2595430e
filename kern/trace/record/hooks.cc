// The tracer's hooks, called by slab_magazine.c, arena.cc, arena_traced.cc and ref_hooks.cc. A hook
// runs with interrupts off, on the stack of the allocator's caller, and with all locks that this
// caller holds.
//
// A hook neither formats text nor allocates from a cache that can be traced. It waits for short
// locks only.
//
// The work of an allocation's hook is bounded. It takes at most kPagesPerHook pages from the arena,
// and usually none. It walks the recorded frames at most twice. It searches at most one chain of
// the stack table, twice, and may split it. To store the record, it calls TraceTable::record(),
// whose comment gives the bound. The first allocation in a system call also walks at most
// kUserStackDepth + 1 user frames, twice, and searches one more chain of the stack table. The first
// allocation of each program of a process also searches two chains of the context table. If filters
// or sampling exclude the allocation, the hook only updates the sampling countdown and increments a
// counter.
//
// The hook of a free searches one chain of each shard that may have the record, at most twice.
// Usually one search of one chain is enough.
//
// A probe's hit uses the same tables of stacks and contexts, and may occur at any function call. So
// the hook of an allocation turns probes off on this CPU before it calls functions. It turns them
// on again before it restores interrupts, because after that the task may move to another CPU. The
// hook of a free uses only a trace's table, which hits of probes do not use. A hook leaves by a
// jump (kern_frames in kern.mk), which a probe could not follow. So hooks cannot be probed.
#include "core/cpu.h"
#include "core/log.h"
#include "core/probe_guard.h"
#include "intern/current_context.h"
#include "intern/kernel_stacks.h"
#include "intern/trace_memory.h"
#include "lib/optimizer.h"
#include "slab_os.h"
#include "slab_trace.h"
#include "trace/record/slow_free_impl.h"
#include "trace/record/table.h"

namespace {

// The general path: records an allocation that filters and sampling admit.
[[gnu::noinline]] void record_allocation(TraceTable* table, const void* object, uint64_t size,
                                         const void* frame) {
  const ProbesOffHere no_hit;
  const Cpu& cpu = this_cpu();
  ASSERT(!cpu.in_nmi);
  ASSERT(table);
  const auto address = reinterpret_cast<uint64_t>(object);
  // An arena's objects need not be addresses.
  if (!TraceTable::holds(address)) [[unlikely]]
    return table->drop(cpu.id);
  if (trace_memory_low() && trace_memory_used_up() && table->drop_if_full(cpu.id)) [[unlikely]]
    return;
  const CurrentContext context = trace_find_context();
  const auto frame_pointer = reinterpret_cast<uint64_t>(frame);
  uint64_t stack = hinted_kernel_stack(StackFrom::kCallers, frame_pointer, table->depth());
  if (stack == 0) stack = learn_kernel_stack(StackFrom::kCallers, frame_pointer, table->depth());
  table->record({.object = address,
                 .size = size,
                 .stack = stack_in(stack),
                 .user_stack = stack_in(context.caller),
                 .context = context.id,
                 .time = coarse_milliseconds(),
                 .cpu = cpu.id,
                 .truncated = (stack & kStackTruncated) != 0 || is_truncated(context.caller),
                 .user_stack_lost = context.caller == TraceCaller::kLost});
}

// Records the allocation on the general path, if filters and sampling select it.
[[gnu::noinline]] void* finish_alloc(TraceTable* table, void* object, uint64_t size,
                                     const void* frame, uint64_t saved) {
  const CpuId cpu = cpu_id();
  const TraceOptions& options = table->options();
  const bool admitted =
      !table->filters() ||
      (options.wants_size(size) && (options.pid == 0 || options.pid == trace_current_pid()));
  if (admitted && table->samples(size, cpu)) [[likely]] {
    record_allocation(table, object, size, frame);
  } else {
    table->filter(cpu);
  }
  slab_os_irq_restore(saved);
  return object;
}

// Ends a free for which TraceTable::forget_at_once() has failed: the record is not in this CPU's
// shard, or the shard's lock was not available.
NOT_PROBED [[gnu::noinline]] void finish_free(TraceTable* table, const void* object,
                                              uint64_t saved) {
  if (!table->forget_elsewhere(reinterpret_cast<uint64_t>(object), cpu_id_for_index())) [[unlikely]]
    return trace_free_slowly(table, object, saved);
  slab_os_irq_restore(saved);
}

// Records an allocation of the current task, whose context and caller are known, with the kernel
// stack `stack`. `frame` is for the general path, which follows if the CPU's shard has no free
// record.
[[gnu::always_inline]] inline void* finish_found(TraceTable* table, void* object, size_t requested,
                                                 const void* frame, uint64_t saved,
                                                 uint64_t stack) {
  if (!table->record_known(
          reinterpret_cast<uint64_t>(object), requested, cpu_id_for_index(),
          [table](uint64_t object) { return table->marked(object); }, stack,
          [] { return context_and_caller(*current_task_head()); },
          [](uint64_t link) { return with_stamp(link); })) [[unlikely]]
    return finish_alloc(table, object, requested, frame, saved);
  slab_os_irq_restore(saved);
  return object;
}

// Records an allocation if filters and sampling are off, but something in the common case is
// missing. `stack` is the kernel stack; 0 if the CPU's hint does not name it.
NOT_PROBED [[gnu::noinline]] void* find_stacks(TraceTable* table, void* object, size_t requested,
                                               const void* frame, uint64_t saved, uint64_t stack) {
  TaskHead* const current = current_task_head();
  if (!current || !trace_context_remembered(*current)) [[unlikely]]
    return finish_alloc(table, object, requested, frame, saved);
  {
    const ProbesOffHere no_hit;
    TaskHead& task = *current;
    if (task.trace_call == TraceCaller::kUnknown) trace_find_caller(task);
    if (stack == 0) {
      if (trace_memory_low() && trace_memory_used_up() && table->drop_if_full(cpu_id()))
          [[unlikely]] {
        slab_os_irq_restore(saved);
        return object;
      }
      stack = learn_kernel_stack(StackFrom::kCallers, reinterpret_cast<uint64_t>(frame),
                                 table->depth());
    }
    if (!is_known(task.trace_call)) [[unlikely]]
      stack = 0;
  }
  if (stack == 0) [[unlikely]]
    return finish_alloc(table, object, requested, frame, saved);
  return finish_found(table, object, requested, frame, saved, stack);
}

// Records an allocation if filters and sampling are off. In the common case this function calls
// nothing: the CPU's hint names the kernel stack, the current task has its context, it has its
// caller or the CPU's hint names that, and the CPU's shard has a free record. Anything else goes on
// in another function.
NOT_PROBED [[gnu::noinline]] void* record_by_hint(TraceTable* table, void* object, size_t requested,
                                                  const void* frame, uint64_t saved) {
  const uint64_t stack =
      hinted_kernel_stack(StackFrom::kCallers, reinterpret_cast<uint64_t>(frame), table->depth());
  const TaskHead* const task = current_task_head();
  if (stack == 0 || !trace_context_remembered(*task)) [[unlikely]]
    return find_stacks(table, object, requested, frame, saved, stack);
  if (!is_known(task->trace_call) && !trace_recall_caller()) [[unlikely]]
    return find_stacks(table, object, requested, frame, saved, stack);
  return finish_found(table, object, requested, frame, saved, stack);
}

// The hook of an allocation. An allocation that sampling skips calls nothing. fits() is true if a
// record can hold the object and its size.
template <typename Fits>
[[gnu::always_inline]] inline void* trace_alloc(TraceTable* table, void* object, size_t requested,
                                                const void* frame, uint64_t saved, Fits fits) {
  if (!table->selects()) [[likely]] {
    if (!fits()) [[unlikely]]
      return finish_alloc(table, object, requested, frame, saved);
    return record_by_hint(table, object, requested, frame, saved);
  }
  if (!table->passes_over(requested, cpu_id_for_index())) [[unlikely]]
    return finish_alloc(table, object, requested, frame, saved);
  slab_os_irq_restore(saved);
  return object;
}

// The hook of a free. fits() is true if a record can hold the object. An arena's number that no
// record can hold has none, but has the low bits of other numbers.
template <typename Fits>
[[gnu::always_inline]] inline void trace_free(TraceTable* table, void* object, uint64_t saved,
                                              Fits fits) {
  auto address = reinterpret_cast<uint64_t>(object);
  if ((table->has_few() && table->has_none(address)) || !fits()) [[unlikely]] {
    table->count_unmatched(cpu_id_for_index());
    slab_os_irq_restore(saved);
    return;
  }
  // Without these lines the compiler moves one of these values to another register, which costs an
  // instruction in the rows `traced` and `free_after_stop` of `make bench`.
  hide_value(table);
  hide_value(address);
  hide_value(saved);
  if (!table->forget_at_once(address, cpu_id_for_index())) [[unlikely]] {
    finish_free(table, reinterpret_cast<const void*>(address), saved);
    return;
  }
  slab_os_irq_restore(saved);
}

}  // namespace

NOT_PROBED void* slab_trace_alloc(kmem_cache* cache, void* object, size_t requested,
                                  const void* frame, uint64_t saved) {
  return trace_alloc(reinterpret_cast<TraceTable*>(kmem_cache_trace(cache)), object, requested,
                     frame, saved, [] { return true; });
}

NOT_PROBED void slab_trace_free(kmem_cache* cache, void* object, uint64_t saved) {
  trace_free(reinterpret_cast<TraceTable*>(kmem_cache_trace(cache)), object, saved,
             [] { return true; });
}

// An arena may hand out numbers, and have sizes, that a record cannot hold.
NOT_PROBED void* arena_trace_alloc(trace_table* trace, void* address, size_t requested,
                                   const void* frame, uint64_t saved) {
  return trace_alloc(reinterpret_cast<TraceTable*>(trace), address, requested, frame, saved, [=] {
    return TraceTable::holds(reinterpret_cast<uint64_t>(address)) &&
           requested < TraceTable::kLargeSize;
  });
}

NOT_PROBED void arena_trace_free(trace_table* trace, void* address, uint64_t saved) {
  trace_free(reinterpret_cast<TraceTable*>(trace), address, saved,
             [=] { return TraceTable::holds(reinterpret_cast<uint64_t>(address)); });
}
