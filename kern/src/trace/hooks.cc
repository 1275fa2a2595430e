// The tracer's hooks in slab.c and arena.cc. Interrupts are off; the stack and the locks held are
// those of the allocator's caller.
//
// No hook allocates from a cache that can be traced, formats text or waits for anything but a short
// lock. Bound of an allocation: kPagesPerHook pages from the arena (usually none), four walks of
// the recorded frames, two chains of the stack table, each searched twice and split, and the split
// of one bucket. Once for each system call, also a walk of kUserStackDepth user frames and one more
// chain of the stack table. Once for each program of a process, two chains of the context table.
// Bound of a free: one chain. An allocation skipped by filters or sampling costs one counter.
//
// A probe's hit uses the same tables of stacks and contexts, and may occur at any function call. So
// the hook of an allocation keeps probes off where it calls functions, and only while interrupts
// are off, since the task may change the CPU afterwards. Its fast path calls none. The hook of a
// free uses only a trace's table, which no hit uses.
//
// A hook has no frame of its own: the recorded stack begins with its caller's. It leaves the fast
// path by a jump (kern_frames in kern.mk), which no probe could follow; so hooks cannot be probed.
#include "core/cpu.h"
#include "core/log.h"
#include "core/probe_guard.h"
#include "lib/optimizer.h"
#include "slab_os.h"
#include "slab_trace.h"
#include "store/current_context.h"
#include "store/kernel_stacks.h"
#include "store/recent_callers.h"
#include "store/trace_memory.h"
#include "trace/trace_table.h"

namespace {

bool wanted(const TraceOptions& options, uint64_t size) {
  return options.wants_size(size) && (options.pid == 0 || options.pid == trace_current_pid());
}

// True if the filters admit an allocation of `size` bytes and sampling takes it.
[[gnu::always_inline]] inline bool selected(TraceTable& table, uint64_t size, uint32_t cpu) {
  return !(table.filters() && !wanted(table.options(), size)) && table.samples(size, cpu);
}

// Records a selected allocation: the general path.
[[gnu::noinline]] void record_allocation(TraceTable* table, const void* object, uint64_t size,
                                         const void* frame) {
  const ProbesOffHere no_hit;
  const Cpu& cpu = this_cpu();
  ASSERT(!cpu.in_nmi);
  ASSERT(table);
  // Arenas need not hand out addresses.
  if (!TraceTable::holds(reinterpret_cast<uint64_t>(object))) [[unlikely]]
    return table->drop(cpu.id);
  if (trace_memory_low()) [[unlikely]]
    trace_memory_prepare();
  const CurrentContext context = trace_find_context();
  const RecordedStack stack =
      record_stack(reinterpret_cast<uint64_t>(frame), table->scope(), cpu, context.caller);
  if (stack.id() != 0 && context.id != 0 && !stack.user_stack_lost() &&
      size < TraceTable::kLargeSize) [[likely]] {
    if (table->record_at_once(reinterpret_cast<uint64_t>(object), size, stack.word(), context.id,
                              cpu.stamp))
      return;
  }
  table->record({.object = reinterpret_cast<uint64_t>(object),
                 .size = size,
                 .stack = stack.id(),
                 .context = context.id,
                 .time = coarse_milliseconds(),
                 .cpu = static_cast<uint16_t>(cpu.id),
                 .truncated = stack.truncated(),
                 .user_stack_lost = stack.user_stack_lost()});
}

[[gnu::noinline, gnu::cold]] void* finish_alloc(TraceTable* table, void* object, uint64_t size,
                                                const void* frame, uint64_t saved) {
  record_allocation(table, object, size, frame);
  slab_os_irq_restore(saved);
  return object;
}

// The trace has a filter or is sampled, and the allocation is not selected yet.
[[gnu::noinline]] void* finish_selected(TraceTable* table, void* object, uint64_t size,
                                        const void* frame, uint64_t saved) {
  const uint32_t cpu = cpu_id();
  if (selected(*table, size, cpu)) [[unlikely]] {
    record_allocation(table, object, size, frame);
  } else {
    table->filter(cpu);
  }
  slab_os_irq_restore(saved);
  return object;
}

// Stack and context are known, but the shard has no free record, or another CPU holds its lock.
void record_known(TraceTable* table, const void* object, uint64_t size, uint64_t stack) {
  const ProbesOffHere no_hit;
  const Cpu& cpu = this_cpu();
  ASSERT(!cpu.in_nmi);
  if (trace_memory_low()) [[unlikely]]
    trace_memory_prepare();
  table->record({.object = reinterpret_cast<uint64_t>(object),
                 .size = size,
                 .stack = static_cast<uint32_t>(stack),
                 .context = static_cast<uint32_t>(cpu.current->trace_context),
                 .time = coarse_milliseconds(),
                 .cpu = static_cast<uint16_t>(cpu.id),
                 .truncated = (stack & kStackTruncated) != 0});
}

[[gnu::noinline]] void* finish_record(TraceTable* table, void* object, uint64_t size,
                                      uint64_t stack, uint64_t saved) {
  record_known(table, object, size, stack);
  slab_os_irq_restore(saved);
  return object;
}

// The user stack of the current task, or its pair with the kernel stack, is not in this CPU's
// caches: stores it. False if that fails.
[[gnu::noinline, gnu::cold]] bool make_pair(RecentStack& recent, TaskHead& task, const Cpu& cpu) {
  if (trace_memory_low()) trace_memory_prepare();
  uint64_t caller = task.trace_call;
  if (caller == kTraceFromUser) caller = trace_walk_caller(task, cpu);
  if (caller == 0) {
    recent.unpair();
    return true;
  }
  if ((caller & kCallerLost) != 0) return false;
  const uint32_t pair =
      trace_stacks.intern_pair({static_cast<uint32_t>(recent.stack()), caller_stack(caller)});
  if (pair == 0) return false;
  recent.pair(caller, pair);
  return true;
}

// The entry has the current kernel stack, but another caller. In the first hook of a system call,
// finds the caller: usually a recent one, recorded with this stack before. Then the entry learns
// the caller, and the result is true. Otherwise false; *met is the caller's entry if the caller is
// recent but was recorded with another stack. Calls no function, and changes few registers.
[[gnu::always_inline]] inline bool learn_caller(RecentStack& recent, const TaskHead& task,
                                                RecentCaller** met) {
  *met = nullptr;
  if (task.trace_call != kTraceFromUser) return false;
  uint64_t caller;
  RecentCaller* entry;
  {
    const ProbesOffHere no_hit;  // as user memory may fault
    caller = recent_caller(&entry);
  }
  if (caller == 0) [[unlikely]]
    return false;
  if (recent.knows(caller)) return true;
  if (entry->stack != static_cast<uint32_t>(recent.stack())) [[unlikely]] {
    *met = entry;
    return false;
  }
  recent.pair(caller, entry->pair);
  return true;
}

// After that has failed: looks the pair up. False as make_pair().
[[gnu::always_inline]] inline bool find_pair(RecentStack& recent, TaskHead& task, const Cpu& cpu,
                                             RecentCaller* met) {
  const uint64_t caller = task.trace_call;
  if (caller == kTraceFromUser) [[unlikely]]
    return make_pair(recent, task, cpu);
  const auto stack = static_cast<uint32_t>(recent.stack());
  const uint32_t pair = trace_stacks.find_pair({stack, caller_stack(caller)});
  if (pair == 0) [[unlikely]]
    return make_pair(recent, task, cpu);
  if (met) {
    met->stack = stack;
    met->pair = pair;
  }
  recent.pair(caller, pair);
  return true;
}

// Records with the entry, which has the stack, and also the caller if `knows`.
[[gnu::always_inline]] inline bool record_by(RecentStack& recent, TraceTable* table,
                                             const void* object, uint64_t size, const Cpu& cpu,
                                             RecentCaller* met, bool knows) {
  TaskHead& task = *cpu.current;
  return (knows || find_pair(recent, task, cpu, met)) &&
         table->record_at_once(reinterpret_cast<uint64_t>(object), size, recent.named(),
                               static_cast<uint32_t>(task.trace_context), cpu.stamp);
}

// The entry has the stack; learn_caller() has failed and returned `met`.
NOT_PROBED [[gnu::noinline]] void* finish_alloc_of_pair(TraceTable* table, void* object,
                                                        uint64_t size, RecentStack* recent,
                                                        uint64_t saved, RecentCaller* met) {
  bool recorded;
  {
    const ProbesOffHere no_hit;
    recorded = record_by(*recent, table, object, size, this_cpu(), met, false);
  }
  if (!recorded) [[unlikely]]
    return finish_alloc(table, object, size, recent->first_frame(), saved);
  slab_os_irq_restore(saved);
  return object;
}

// The entry has the stack, but this is an interrupt or exception, or the task has no context yet.
// An exception inside the kernel belongs to the task.
NOT_PROBED [[gnu::noinline]] void* finish_alloc_of_task(TraceTable* table, void* object,
                                                        uint64_t size, RecentStack* recent,
                                                        uint64_t saved) {
  bool recorded;
  {
    const ProbesOffHere no_hit;
    const Cpu& cpu = this_cpu();
    RecentCaller* met = nullptr;
    recorded =
        trace_context_remembered(cpu) && record_by(*recent, table, object, size, cpu, met,
                                                   recent->knows(cpu.current->trace_call) ||
                                                       learn_caller(*recent, *cpu.current, &met));
  }
  if (!recorded) return finish_alloc(table, object, size, recent->first_frame(), saved);
  slab_os_irq_restore(saved);
  return object;
}

// The entry at the stack's index differs from the stack at `from`. If only return addresses differ,
// the entry takes over the new stack. True if it has, and the stack is in the table.
[[gnu::always_inline]] inline bool take_over(RecentStack& recent, const RecentStack::Frame* from,
                                             StackScope scope, const Cpu& cpu) {
  if (!recent.readdress(from, reinterpret_cast<uint64_t>(recent.first_frame()), scope,
                        cpu.kernel_stack)) [[unlikely]]
    return false;
  const uint32_t id = trace_stacks.find_packed(recent.frames(), recent.sum());
  if (id == 0) [[unlikely]]
    return false;
  recent.name(id);
  return true;
}

// The entry at the stack's index has another stack that begins at the same frame.
NOT_PROBED [[gnu::noinline]] void* finish_alloc_of_stack(TraceTable* table, void* object,
                                                         uint64_t size, RecentStack* recent,
                                                         uint64_t saved,
                                                         const RecentStack::Frame* from) {
  bool recorded;
  const void* const frame = recent->first_frame();
  {
    const ProbesOffHere no_hit;
    const Cpu& cpu = this_cpu();
    RecentCaller* met = nullptr;
    recorded = take_over(*recent, from, table->scope(), cpu) && trace_context_remembered(cpu) &&
               record_by(*recent, table, object, size, cpu, met,
                         recent->knows(cpu.current->trace_call) ||
                             learn_caller(*recent, *cpu.current, &met));
  }
  if (!recorded) [[unlikely]]
    return finish_alloc(table, object, size, frame, saved);
  slab_os_irq_restore(saved);
  return object;
}

TraceTable* table_of(kmem_cache* cache) {
  return reinterpret_cast<TraceTable*>(kmem_cache_trace(cache));
}

[[gnu::noinline, gnu::cold]] void forget(TraceTable* table, const void* object, uint64_t saved) {
  ASSERT(table);
  table->forget(reinterpret_cast<uint64_t>(object), cpu_id());
  slab_os_irq_restore(saved);
}

// The record is not in this CPU's shard, or another CPU holds the shard's lock.
NOT_PROBED [[gnu::noinline]] void finish_free(TraceTable* table, const void* object,
                                              uint64_t saved) {
  if (!table->forget_elsewhere(reinterpret_cast<uint64_t>(object), cpu_index())) [[unlikely]]
    return forget(table, object, saved);
  slab_os_irq_restore(saved);
}

// Arenas may hand out numbers and sizes that a record cannot hold: kAsked checks for these.
enum class Fits : uint8_t { kAlways, kAsked };

// Stack, caller and context are known.
[[gnu::always_inline]] inline void* trace_known(TraceTable* table, void* object, size_t requested,
                                                const RecentStack* recent, uint64_t saved) {
  if (!table->record_known(
          reinterpret_cast<uint64_t>(object), requested, cpu_index(),
          [table](uint64_t object) { return table->marked(object); },
          [recent] { return recent->named(); },
          [] { return static_cast<uint32_t>(current_task_head()->trace_context); },
          [](uint64_t link) { return with_stamp(link); })) [[unlikely]]
    return finish_record(table, object, requested, recent->named(), saved);
  slab_os_irq_restore(saved);
  return object;
}

// The entry has the stack, but another caller than the current task's.
NOT_PROBED [[gnu::noinline]] void* trace_of_caller(TraceTable* table, void* object,
                                                   size_t requested, RecentStack* recent,
                                                   uint64_t saved) {
  RecentCaller* met;
  if (!learn_caller(*recent, *current_task_head(), &met)) [[unlikely]]
    return finish_alloc_of_pair(table, object, requested, recent, saved, met);
  return trace_known(table, object, requested, recent, saved);
}

// The entry at the stack's index has a stack that begins at the same frame.
[[gnu::always_inline]] inline void* trace_at_place(TraceTable* table, void* object,
                                                   size_t requested, RecentStack* recent,
                                                   uint64_t saved) {
  if (const RecentStack::Frame* const differs = recent->differs_below(kernel_stack_top))
      [[unlikely]]
    return finish_alloc_of_stack(table, object, requested, recent, saved, differs);
  const TaskHead& task = *current_task_head();
  if (in_interrupt_or_exception() || !trace_contexts.remembers(task.trace_context)) [[unlikely]]
    return finish_alloc_of_task(table, object, requested, recent, saved);
  if (!recent->knows(task.trace_call)) [[unlikely]]
    return trace_of_caller(table, object, requested, recent, saved);
  return trace_known(table, object, requested, recent, saved);
}
NOT_PROBED [[gnu::noinline]] void* trace_brought(TraceTable* table, void* object, size_t requested,
                                                 RecentStack* recent, uint64_t saved) {
  return trace_at_place(table, object, requested, recent, saved);
}

// The entry at the stack's index has a stack that begins elsewhere. If another entry of the set has
// one that begins here, the two swap.
NOT_PROBED [[gnu::noinline]] void* trace_from_set(TraceTable* table, void* object, size_t requested,
                                                  const void* frame, uint64_t saved) {
  RecentStack* const brought = bring_recent(reinterpret_cast<uint64_t>(frame), table->scope(),
                                            kernel_stack_top(), cpu_index());
  if (!brought) [[unlikely]]
    return finish_alloc(table, object, requested, frame, saved);
  return trace_brought(table, object, requested, brought, saved);
}

// The entry at the stack's index has another stack, maybe the same one of another task.
NOT_PROBED [[gnu::noinline]] void* trace_elsewhere(TraceTable* table, void* object,
                                                   size_t requested, RecentStack* recent,
                                                   uint64_t saved, const void* frame) {
  if (!recent->move(reinterpret_cast<uint64_t>(frame), table->scope(), kernel_stack_top()))
    return trace_from_set(table, object, requested, frame, saved);
  return trace_brought(table, object, requested, recent, saved);
}

// Fast path: there is no filter, stack, caller and context are known, and the table has a free
// record. This path and that of an allocation skipped by sampling call nothing, so that no register
// is saved. Anything else restarts on a slower path.
template <Fits fits>
[[gnu::always_inline]] inline void* trace_alloc(TraceTable* table, void* object, size_t requested,
                                                const void* frame, uint64_t saved) {
  if (table->selects()) [[unlikely]] {
    if (!table->passes_over(requested, cpu_index())) [[unlikely]]
      return finish_selected(table, object, requested, frame, saved);
    slab_os_irq_restore(saved);
    return object;
  }
  if (fits == Fits::kAsked && (!TraceTable::holds(reinterpret_cast<uint64_t>(object)) ||
                               requested >= TraceTable::kLargeSize)) [[unlikely]]
    return finish_selected(table, object, requested, frame, saved);
  const auto frame_pointer = reinterpret_cast<uint64_t>(frame);
  RecentStack* const recent = recent_place(frame_pointer, cpu_index());
  if (!recent->is_at(frame_pointer, table->key_of(kernel_stack_top()))) [[unlikely]]
    return trace_elsewhere(table, object, requested, recent, saved, frame);
  // `frame` is not kept in a register from here on: the entry has it, too.
  return trace_at_place(table, object, requested, recent, saved);
}

[[gnu::always_inline]] inline void trace_free(TraceTable* table, void* object, uint64_t saved) {
  auto address = reinterpret_cast<uint64_t>(object);
  if (table->has_few() && table->has_none(address)) [[unlikely]] {
    table->count_unmatched(cpu_index());
    slab_os_irq_restore(saved);
    return;
  }
  // traced, free_after_stop: keeps the compiler from moving one of them to another register on both
  // paths.
  hide_value(table);
  hide_value(address);
  hide_value(saved);
  if (!table->forget_at_once(address, cpu_index())) [[unlikely]] {
    finish_free(table, reinterpret_cast<const void*>(address), saved);
    return;
  }
  slab_os_irq_restore(saved);
}

}  // namespace

NOT_PROBED void* slab_trace_alloc(kmem_cache* cache, void* object, size_t requested,
                                  const void* frame, uint64_t saved) {
  return trace_alloc<Fits::kAlways>(table_of(cache), object, requested, frame, saved);
}

NOT_PROBED void slab_trace_free(kmem_cache* cache, void* object, uint64_t saved) {
  trace_free(table_of(cache), object, saved);
}

NOT_PROBED void* arena_trace_alloc(trace_table* trace, void* address, size_t requested,
                                   const void* frame, uint64_t saved) {
  return trace_alloc<Fits::kAsked>(reinterpret_cast<TraceTable*>(trace), address, requested, frame,
                                   saved);
}

NOT_PROBED void arena_trace_free(trace_table* trace, void* address, uint64_t saved) {
  trace_free(reinterpret_cast<TraceTable*>(trace), address, saved);
}
