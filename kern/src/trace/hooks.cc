// What slab.c and arena.cc call: interrupts are off, on whatever stack and with whatever locks the
// caller of the allocator held.
//
// Nothing here allocates from a cache that can be traced, formats text or waits for anything but a
// short lock. Bound of an allocation: kPagesPerHook pages from the arena (mostly none), four walks
// of the frames asked for, two chains of the stack table, each searched twice and split, the split
// of one bucket; once for each system call also a walk of kUserStackDepth user frames and one more
// chain of the stack table; once for each program that a process runs two chains of the context
// table. Bound of a free: one chain. What filters and sampling keep out costs a counter: nothing is
// walked or made for it.
//
// A hit of a probe uses the same tables of stacks and contexts, and may come wherever a function is
// called. So an allocation's hook that calls any keeps probes off, and no longer than interrupts,
// after which the task may be on another CPU; what is mostly the case calls none. A free's has to
// do with a trace's table alone, which no hit knows.
//
// A hook needs no frame of its own: the recorded stack begins with that of its caller. It jumps to
// whatever is not the usual case (kern_frames in kern.mk), which no probe could follow; so it
// cannot be probed.
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

// Whether an allocation of `size` bytes is wanted, and if the table is sampled, whether a sampling
// point lies in it.
[[gnu::always_inline]] inline bool selected(TraceTable& table, uint64_t size, uint32_t cpu) {
  return !(table.filters() && !wanted(table.options(), size)) && table.samples(size, cpu);
}

// One that is selected.
[[gnu::noinline]] void record_allocation(TraceTable* table, const void* object, uint64_t size,
                                         const void* frame) {
  const ProbesOffHere no_hit;
  const Cpu& cpu = this_cpu();
  ASSERT(!cpu.in_nmi);
  ASSERT(table);
  // What an arena hands out need not be an address.
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

// The trace selects, and nothing has been decided yet.
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

// Stack and context are known, but the shard has no record to spare, or others hold it.
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

// The user stack of the current task is one that this CPU has not met lately, or the pair is.
// False if either cannot be stored.
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

// If this is the first thing in a system call, the caller is asked for: mostly it is one that was
// met before, and with this stack. Then the entry, which has the kernel stack and does not know the
// caller, knows it. Otherwise false; *met is the caller's entry if that was met before with another
// stack. No function is called, and few registers are changed.
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

// The same after that: looks the pair up. False as make_pair().
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

// The entry has the stack, and knows the caller if `knows`.
[[gnu::always_inline]] inline bool record_by(RecentStack& recent, TraceTable* table,
                                             const void* object, uint64_t size, const Cpu& cpu,
                                             RecentCaller* met, bool knows) {
  TaskHead& task = *cpu.current;
  return (knows || find_pair(recent, task, cpu, met)) &&
         table->record_at_once(reinterpret_cast<uint64_t>(object), size, recent.named(),
                               static_cast<uint32_t>(task.trace_context), cpu.stamp);
}

// The entry has the stack; learn_caller() has said no, and `met`.
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

// The entry has the stack, but this may not be the current task's doing, or that may not have a
// context yet: in an exception inside the kernel, which is the task's, it may.
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

// The entry at the stack's place, of which `from` differs, takes the stack over if only return
// addresses are others: whether it has, and the stack is stored.
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

// The entry at the stack's place has another one that begins there.
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

// The record is not in this CPU's shard, or others hold that.
NOT_PROBED [[gnu::noinline]] void finish_free(TraceTable* table, const void* object,
                                              uint64_t saved) {
  if (!table->forget_elsewhere(reinterpret_cast<uint64_t>(object), cpu_index())) [[unlikely]]
    return forget(table, object, saved);
  slab_os_irq_restore(saved);
}

// Whether what is allocated may be more than a record can hold: it may of an arena.
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

// The entry has the stack, but what it remembers is another caller than that of the current task.
NOT_PROBED [[gnu::noinline]] void* trace_of_caller(TraceTable* table, void* object,
                                                   size_t requested, RecentStack* recent,
                                                   uint64_t saved) {
  RecentCaller* met;
  if (!learn_caller(*recent, *current_task_head(), &met)) [[unlikely]]
    return finish_alloc_of_pair(table, object, requested, recent, saved, met);
  return trace_known(table, object, requested, recent, saved);
}

// The entry at the stack's place is of one that begins there.
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

// It is not. One of another place of the set that is comes to this one, if there is one.
NOT_PROBED [[gnu::noinline]] void* trace_from_set(TraceTable* table, void* object, size_t requested,
                                                  const void* frame, uint64_t saved) {
  RecentStack* const brought = bring_recent(reinterpret_cast<uint64_t>(frame), table->scope(),
                                            kernel_stack_top(), cpu_index());
  if (!brought) [[unlikely]]
    return finish_alloc(table, object, requested, frame, saved);
  return trace_brought(table, object, requested, brought, saved);
}

// The entry at the stack's place is of another stack, maybe of one that begins alike.
NOT_PROBED [[gnu::noinline]] void* trace_elsewhere(TraceTable* table, void* object,
                                                   size_t requested, RecentStack* recent,
                                                   uint64_t saved, const void* frame) {
  if (!recent->move(reinterpret_cast<uint64_t>(frame), table->scope(), kernel_stack_top()))
    return trace_from_set(table, object, requested, frame, saved);
  return trace_brought(table, object, requested, recent, saved);
}

// Fast path: everything is wanted, stack, caller and context are known, and the table has a record
// to spare. It calls nothing, so that no register need be saved for it, and so does what sampling
// passes over. Anything else begins afresh.
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
  // The frame is in the entry too, so that nothing need keep it meanwhile.
  return trace_at_place(table, object, requested, recent, saved);
}

[[gnu::always_inline]] inline void trace_free(TraceTable* table, void* object, uint64_t saved) {
  auto address = reinterpret_cast<uint64_t>(object);
  if (table->has_few() && table->has_none(address)) [[unlikely]] {
    table->count_unmatched(cpu_index());
    slab_os_irq_restore(saved);
    return;
  }
  // traced, free_after_stop: one of them would move to another register, for both ways.
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
