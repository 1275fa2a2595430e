// The tracer's hooks, called by slab_magazine.c, arena.cc, arena_traced.cc and ref_hooks.cc. A hook
// runs with interrupts off, on the stack of the allocator's caller, and with all locks that this
// caller holds.
//
// A hook neither formats text nor allocates from a cache that can be traced. It waits for short
// locks only.
//
// The work of an allocation's hook is bounded. It takes at most kPagesPerHook pages from the arena,
// and usually none. It walks the recorded frames at most four times. It searches at most two chains
// of the stack table, each of them twice, and may split both chains. To store the record, it calls
// TraceTable::record(), whose comment gives the bound. The first allocation in a system call also
// walks at most kUserStackDepth + 1 user frames and searches one more chain of the stack table. The
// first allocation of each program of a process also searches two chains of the context table. If
// filters or sampling exclude the allocation, the hook only updates the sampling countdown and
// increments a counter.
//
// The hook of a free searches one chain of each shard that may have the record, at most twice.
// Usually one search of one chain is enough.
//
// A probe's hit uses the same tables of stacks and contexts, and may occur at any function call. So
// the hook of an allocation turns probes off on this CPU before it calls functions. It turns them
// on again before it restores interrupts, because after that the task may move to another CPU. The
// fast path calls no function. The hook of a free uses only a trace's table, which hits of probes
// do not use.
//
// A hook has no stack frame of its own: the recorded stack begins with the frame of the hook's
// caller. A hook leaves the fast path by a jump (kern_frames in kern.mk), which a probe could not
// follow. So hooks cannot be probed.
#include "core/cpu.h"
#include "core/log.h"
#include "core/probe_guard.h"
#include "intern/current_context.h"
#include "intern/kernel_stacks.h"
#include "intern/recent_callers.h"
#include "intern/trace_memory.h"
#include "lib/optimizer.h"
#include "slab_os.h"
#include "slab_trace.h"
#include "trace/record/table.h"

namespace {

bool wanted(const TraceOptions& options, uint64_t size) {
  return options.wants_size(size) && (options.pid == 0 || options.pid == trace_current_pid());
}

// True if the filters admit an allocation of `size` bytes and sampling takes it.
[[gnu::always_inline]] inline bool selected(TraceTable& table, uint64_t size, CpuId cpu) {
  return !(table.filters() && !wanted(table.options(), size)) && table.samples(size, cpu);
}

// The general path: records an allocation that filters and sampling admit.
[[gnu::noinline]] void record_allocation(TraceTable* table, const void* object, uint64_t size,
                                         const void* frame) {
  const ProbesOffHere no_hit;
  const Cpu& cpu = this_cpu();
  ASSERT(!cpu.in_nmi);
  ASSERT(table);
  // An arena's objects need not be addresses.
  if (!TraceTable::holds(reinterpret_cast<uint64_t>(object))) [[unlikely]]
    return table->drop(cpu.id);
  if (trace_memory_low()) [[unlikely]]
    trace_memory_prepare();
  const CurrentContext context = trace_find_context();
  const RecordedStack stack =
      record_stack(reinterpret_cast<uint64_t>(frame), table->scope(), cpu, context.caller);
  if (stack.id() != StackId::kNone && context.id != ContextId::kNone && !stack.user_stack_lost() &&
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
                 .cpu = cpu.id,
                 .truncated = stack.truncated(),
                 .user_stack_lost = stack.user_stack_lost()});
}

[[gnu::noinline, gnu::cold]] void* finish_alloc(TraceTable* table, void* object, uint64_t size,
                                                const void* frame, uint64_t saved) {
  record_allocation(table, object, size, frame);
  slab_os_irq_restore(saved);
  return object;
}

// Tests filters and sampling, and records the allocation if it is selected.
[[gnu::noinline]] void* finish_selected(TraceTable* table, void* object, uint64_t size,
                                        const void* frame, uint64_t saved) {
  const CpuId cpu = cpu_id();
  if (selected(*table, size, cpu)) [[unlikely]] {
    record_allocation(table, object, size, frame);
  } else {
    table->filter(cpu);
  }
  slab_os_irq_restore(saved);
  return object;
}

// Records an allocation whose stack and context are in the tables and have numbers. Called after
// TraceTable::record_known() has failed.
void record_known(TraceTable* table, const void* object, uint64_t size, uint64_t stack) {
  const ProbesOffHere no_hit;
  const Cpu& cpu = this_cpu();
  ASSERT(!cpu.in_nmi);
  if (trace_memory_low()) [[unlikely]]
    trace_memory_prepare();
  table->record({.object = reinterpret_cast<uint64_t>(object),
                 .size = size,
                 .stack = stack_in(stack),
                 .context = ContextTable::number_in(cpu.current->trace_context),
                 .time = coarse_milliseconds(),
                 .cpu = cpu.id,
                 .truncated = (stack & kStackTruncated) != 0});
}

[[gnu::noinline]] void* finish_record(TraceTable* table, void* object, uint64_t size,
                                      uint64_t stack, uint64_t saved) {
  record_known(table, object, size, stack);
  slab_os_irq_restore(saved);
  return object;
}

// Slow path. `recent` has the current kernel stack. Neither learn_caller() nor find_pair() has
// found the pair of this stack and the current task's user stack. If the user stack is not known
// yet, walks and stores it. Then stores the pair in the stack table and in `recent`. False if a
// stack or the pair cannot be stored.
[[gnu::noinline, gnu::cold]] bool make_pair(RecentStack& recent, TaskHead& task, const Cpu& cpu) {
  if (trace_memory_low()) trace_memory_prepare();
  TraceCaller caller = task.trace_call;
  if (caller == TraceCaller::kUnknown) caller = trace_walk_caller(task, cpu);
  if (caller == TraceCaller::kNone) {
    recent.unpair();
    return true;
  }
  if (caller == TraceCaller::kLost) return false;
  const StackId pair = trace_stacks.intern_pair({stack_in(recent.stack()), stack_in(caller)});
  if (pair == StackId::kNone) return false;
  recent.pair(caller, pair);
  return true;
}

// Called if `recent` has the current kernel stack, but not the pair for the current caller. The
// caller is the user stack of the system call or fault under way (TaskHead::trace_call). In the
// first hook of a system call or fault, searches the CPU's recent callers (recent_callers.h). If
// the caller is found and was last recorded with this kernel stack, stores the caller and the pair
// in `recent` and returns true. Otherwise returns false. If the caller is found but was last
// recorded with another kernel stack, sets *met to the caller's entry, otherwise to nullptr. Calls
// no C++ function, and changes few registers.
[[gnu::always_inline]] inline bool learn_caller(RecentStack& recent, const TaskHead& task,
                                                RecentCaller** met) {
  *met = nullptr;
  if (task.trace_call != TraceCaller::kUnknown) return false;
  TraceCaller caller;
  RecentCaller* entry;
  {
    const ProbesOffHere no_hit;  // the walk may fault on user memory
    caller = recent_caller(&entry);
  }
  if (caller == TraceCaller::kNone) [[unlikely]]
    return false;
  if (recent.knows(caller)) return true;
  if (entry->stack != stack_in(recent.stack())) [[unlikely]] {
    *met = entry;
    return false;
  }
  recent.pair(caller, entry->pair);
  return true;
}

// `recent` has the current kernel stack. Finds the pair of this stack and the task's user stack in
// the stack table, or adds it, and stores the pair in `recent`. If the table had the pair and `met`
// is not nullptr, also stores the pair in *met, an entry of the recent callers. False if the pair
// cannot be stored.
[[gnu::always_inline]] inline bool find_pair(RecentStack& recent, TaskHead& task, const Cpu& cpu,
                                             RecentCaller* met) {
  const TraceCaller caller = task.trace_call;
  if (caller == TraceCaller::kUnknown) [[unlikely]]
    return make_pair(recent, task, cpu);
  const StackId stack = stack_in(recent.stack());
  const StackId pair = trace_stacks.find_pair({stack, stack_in(caller)});
  if (pair == StackId::kNone) [[unlikely]]
    return make_pair(recent, task, cpu);
  if (met) {
    met->stack = stack;
    met->pair = pair;
  }
  recent.pair(caller, pair);
  return true;
}

// `recent` has the current kernel stack. Records the object with this stack and the current caller.
// `knows`: `recent` also has the pair of this stack and this caller. Returns false, with nothing
// recorded, if the pair cannot be stored or record_at_once() fails.
[[gnu::always_inline]] inline bool record_by(RecentStack& recent, TraceTable* table,
                                             const void* object, uint64_t size, const Cpu& cpu,
                                             RecentCaller* met, bool knows) {
  TaskHead& task = *cpu.current;
  return (knows || find_pair(recent, task, cpu, met)) &&
         table->record_at_once(reinterpret_cast<uint64_t>(object), size, recent.named(),
                               ContextTable::number_in(task.trace_context), cpu.stamp);
}

// Ends the hook. If the allocation is not recorded yet, takes the general path.
[[gnu::always_inline]] inline void* finish_tried(bool recorded, TraceTable* table, void* object,
                                                 uint64_t size, const void* frame, uint64_t saved) {
  if (!recorded) [[unlikely]]
    return finish_alloc(table, object, size, frame, saved);
  slab_os_irq_restore(saved);
  return object;
}

// Ends the hook of an allocation after learn_caller() has failed and returned `met`. `recent` has
// the current kernel stack.
NOT_PROBED [[gnu::noinline]] void* finish_alloc_of_pair(TraceTable* table, void* object,
                                                        uint64_t size, RecentStack* recent,
                                                        uint64_t saved, RecentCaller* met) {
  bool recorded;
  {
    const ProbesOffHere no_hit;
    recorded = record_by(*recent, table, object, size, this_cpu(), met, false);
  }
  return finish_tried(recorded, table, object, size, recent->first_frame(), saved);
}

// `recent` is the entry at the current stack's index. It differs from this stack in frame `from`
// and maybe in later frames. If only return addresses differ, changes the entry to the current
// stack, and then searches the stack table. Returns true if both succeed.
[[gnu::always_inline]] inline bool take_over(RecentStack& recent, const RecentStack::Frame* from,
                                             StackScope scope, const Cpu& cpu) {
  if (!recent.readdress(from, reinterpret_cast<uint64_t>(recent.first_frame()), scope,
                        cpu.kernel_stack)) [[unlikely]]
    return false;
  const StackId id = trace_stacks.find_packed(recent.frames(), recent.sum());
  if (id == StackId::kNone) [[unlikely]]
    return false;
  recent.name(id);
  return true;
}

// Ends the hook of an allocation. `recent`, the entry at the stack's index, begins at the same
// frame as the current stack. If `from` is not nullptr, the entry has another stack, and `from` is
// the first frame that differs. Otherwise the entry has the current stack, and the fast path has
// failed for one of two reasons: the CPU is in an interrupt, or the task has no valid context yet.
NOT_PROBED [[gnu::noinline]] void* finish_alloc_of_entry(TraceTable* table, void* object,
                                                         uint64_t size, RecentStack* recent,
                                                         uint64_t saved,
                                                         const RecentStack::Frame* from) {
  bool recorded;
  const void* const frame = recent->first_frame();
  {
    const ProbesOffHere no_hit;
    const Cpu& cpu = this_cpu();
    RecentCaller* met = nullptr;
    recorded = (!from || take_over(*recent, from, table->scope(), cpu)) &&
               trace_context_remembered(cpu) &&
               record_by(*recent, table, object, size, cpu, met,
                         recent->knows(cpu.current->trace_call) ||
                             learn_caller(*recent, *cpu.current, &met));
  }
  return finish_tried(recorded, table, object, size, frame, saved);
}

TraceTable* table_of(kmem_cache* cache) {
  return reinterpret_cast<TraceTable*>(kmem_cache_trace(cache));
}

[[gnu::noinline, gnu::cold]] void forget(TraceTable* table, const void* object, uint64_t saved) {
  ASSERT(table);
  table->forget(reinterpret_cast<uint64_t>(object), cpu_id());
  slab_os_irq_restore(saved);
}

// Ends a free for which TraceTable::forget_at_once() has failed: the record is not in this CPU's
// shard, or the shard's lock was not available.
NOT_PROBED [[gnu::noinline]] void finish_free(TraceTable* table, const void* object,
                                              uint64_t saved) {
  if (!table->forget_elsewhere(reinterpret_cast<uint64_t>(object), cpu_id_for_index())) [[unlikely]]
    return forget(table, object, saved);
  slab_os_irq_restore(saved);
}

// An arena may hand out numbers, and have sizes, that a record cannot hold. kAsked: the hook tests
// whether the record can hold them.
enum class Fits : uint8_t { kAlways, kAsked };

// Records an allocation whose stack, caller and context are cached.
[[gnu::always_inline]] inline void* trace_known(TraceTable* table, void* object, size_t requested,
                                                const RecentStack* recent, uint64_t saved) {
  if (!table->record_known(
          reinterpret_cast<uint64_t>(object), requested, cpu_id_for_index(),
          [table](uint64_t object) { return table->marked(object); },
          [recent] { return recent->named(); },
          [] { return ContextTable::number_in(current_task_head()->trace_context); },
          [](uint64_t link) { return with_stamp(link); })) [[unlikely]]
    return finish_record(table, object, requested, recent->named(), saved);
  slab_os_irq_restore(saved);
  return object;
}

// Records an allocation. `recent` has the kernel stack, but with another caller than the current
// task's.
NOT_PROBED [[gnu::noinline]] void* trace_of_caller(TraceTable* table, void* object,
                                                   size_t requested, RecentStack* recent,
                                                   uint64_t saved) {
  RecentCaller* met;
  if (!learn_caller(*recent, *current_task_head(), &met)) [[unlikely]]
    return finish_alloc_of_pair(table, object, requested, recent, saved, met);
  return trace_known(table, object, requested, recent, saved);
}

// Records an allocation. `recent`, the entry at the stack's index, has a stack that begins at the
// same frame.
[[gnu::always_inline]] inline void* trace_at_place(TraceTable* table, void* object,
                                                   size_t requested, RecentStack* recent,
                                                   uint64_t saved) {
  if (const RecentStack::Frame* const differs = recent->differs_below(kernel_stack_top))
      [[unlikely]]
    return finish_alloc_of_entry(table, object, requested, recent, saved, differs);
  const TaskHead& task = *current_task_head();
  if (in_interrupt() || !trace_contexts.remembers(task.trace_context)) [[unlikely]]
    return finish_alloc_of_entry(table, object, requested, recent, saved, nullptr);
  if (!recent->knows(task.trace_call)) [[unlikely]]
    return trace_of_caller(table, object, requested, recent, saved);
  return trace_known(table, object, requested, recent, saved);
}
NOT_PROBED [[gnu::noinline]] void* trace_brought(TraceTable* table, void* object, size_t requested,
                                                 RecentStack* recent, uint64_t saved) {
  return trace_at_place(table, object, requested, recent, saved);
}

// Records an allocation. The entry at the stack's index has a stack that begins at another frame.
// Searches the set for an entry whose stack begins at `frame`, or that can be moved to the current
// stack. If there is such an entry, puts it at the stack's index and uses it. Otherwise takes the
// general path.
NOT_PROBED [[gnu::noinline]] void* trace_from_set(TraceTable* table, void* object, size_t requested,
                                                  const void* frame, uint64_t saved) {
  RecentStack* const brought = bring_recent(reinterpret_cast<uint64_t>(frame), table->scope(),
                                            kernel_stack_top(), cpu_id_for_index());
  if (!brought) [[unlikely]]
    return finish_alloc(table, object, requested, frame, saved);
  return trace_brought(table, object, requested, brought, saved);
}

// Records an allocation. `recent`, the entry at the stack's index, has a stack that begins at
// another frame. If the entry has the same frames on another task's stack, moves the entry to the
// current stack. Otherwise searches the set.
NOT_PROBED [[gnu::noinline]] void* trace_elsewhere(TraceTable* table, void* object,
                                                   size_t requested, RecentStack* recent,
                                                   uint64_t saved, const void* frame) {
  if (!recent->move(reinterpret_cast<uint64_t>(frame), table->scope(), kernel_stack_top()))
    return trace_from_set(table, object, requested, frame, saved);
  return trace_brought(table, object, requested, recent, saved);
}

// Fast path. It requires that filters and sampling are off, that the stack, the caller and the
// context are in the caches, and that the CPU's shard has a free record. It calls no function, so
// that no register is saved. The same is true of an allocation that sampling skips. All other cases
// restart on a slower path.
template <Fits fits>
[[gnu::always_inline]] inline void* trace_alloc(TraceTable* table, void* object, size_t requested,
                                                const void* frame, uint64_t saved) {
  if (table->selects()) [[unlikely]] {
    if (!table->passes_over(requested, cpu_id_for_index())) [[unlikely]]
      return finish_selected(table, object, requested, frame, saved);
    slab_os_irq_restore(saved);
    return object;
  }
  if (fits == Fits::kAsked && (!TraceTable::holds(reinterpret_cast<uint64_t>(object)) ||
                               requested >= TraceTable::kLargeSize)) [[unlikely]]
    return finish_selected(table, object, requested, frame, saved);
  const auto frame_pointer = reinterpret_cast<uint64_t>(frame);
  RecentStack* const recent = recent_place(frame_pointer, cpu_id_for_index());
  if (!recent->is_at(frame_pointer, table->key_of(kernel_stack_top()))) [[unlikely]]
    return trace_elsewhere(table, object, requested, recent, saved, frame);
  // trace_at_place() gets the frame from `recent`: one argument less saves a register.
  return trace_at_place(table, object, requested, recent, saved);
}

[[gnu::always_inline]] inline void trace_free(TraceTable* table, void* object, uint64_t saved) {
  auto address = reinterpret_cast<uint64_t>(object);
  if (table->has_few() && table->has_none(address)) [[unlikely]] {
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

// An arena's number that no record can hold has no record, but has the low bits of other numbers.
NOT_PROBED void arena_trace_free(trace_table* trace, void* address, uint64_t saved) {
  auto* const table = reinterpret_cast<TraceTable*>(trace);
  if (!TraceTable::holds(reinterpret_cast<uint64_t>(address))) [[unlikely]] {
    table->count_unmatched(cpu_id_for_index());
    return slab_os_irq_restore(saved);
  }
  trace_free(table, address, saved);
}
