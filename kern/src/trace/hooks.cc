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
#include "trace/hooks.h"

#include "arch/x86_64/time.h"
#include "core/cpu.h"
#include "core/log.h"
#include "core/probe_guard.h"
#include "core/ref.h"
#include "slab_os.h"
#include "slab_trace.h"
#include "store/current_context.h"
#include "store/kernel_stacks.h"
#include "store/recent_callers.h"
#include "store/trace_memory.h"

namespace {

bool wanted(const TraceOptions& options, uint64_t size) {
  return options.wants_size(size) && (options.pid == 0 || options.pid == trace_current_pid());
}

struct alignas(64) CpuSampler {
  Sampler sampler;
};
constinit CpuSampler samplers[kMaxCpus];

// Whether an allocation of `size` bytes is wanted, and if the table is sampled, whether a sampling
// point lies in it.
[[gnu::always_inline]] inline bool selected(const TraceTable& table, uint64_t size, uint32_t cpu) {
  if (table.filters() && !wanted(table.options(), size)) return false;
  return table.step() == 0 || samplers[cpu].sampler.take(size, table.step());
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
                 .truncated = (stack & TraceTable::kFlag) != 0});
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

// Sees to it that the entry, which has the kernel stack, knows the caller of the current task. If
// this is the first thing in a system call, the caller is asked for: mostly it is one that was met
// before, and with this stack. False as make_pair().
[[gnu::always_inline]] inline bool find_pair(RecentStack& recent, TaskHead& task, const Cpu& cpu) {
  uint64_t caller = task.trace_call;
  if (recent.knows(caller)) return true;
  const auto stack = static_cast<uint32_t>(recent.stack());
  RecentCaller* met = nullptr;
  if (caller == kTraceFromUser) {
    caller = recent_caller(&met);
    if (caller == 0) [[unlikely]]
      return make_pair(recent, task, cpu);
    if (recent.knows(caller)) return true;
    if (met->stack == stack) {
      recent.pair(caller, met->pair);
      return true;
    }
  }
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

// The entry has the stack, but what it remembers is another caller than that of the current task.
// Unless a probe's hit has come since: that has another frame. False if it is so, or not all else
// is at hand.
[[gnu::always_inline]] inline bool record_of_caller(TraceTable* table, const void* object,
                                                    uint64_t size, const void* frame,
                                                    RecentStack* recent) {
  const ProbesOffHere no_hit;
  const Cpu& cpu = this_cpu();
  TaskHead& task = *cpu.current;
  return recent->begins_at(reinterpret_cast<uint64_t>(frame)) && find_pair(*recent, task, cpu) &&
         table->record_at_once(reinterpret_cast<uint64_t>(object), size, recent->named(),
                               static_cast<uint32_t>(task.trace_context), cpu.stamp);
}

// The same in an exception inside the kernel, where the task may not have a context yet.
[[gnu::noinline]] void* finish_alloc_of_task(TraceTable* table, void* object, uint64_t size,
                                             const void* frame, uint64_t saved,
                                             RecentStack* recent) {
  const Cpu& cpu = this_cpu();
  if (!trace_context_remembered(cpu) || !record_of_caller(table, object, size, frame, recent))
    return finish_alloc(table, object, size, frame, saved);
  slab_os_irq_restore(saved);
  return object;
}

[[gnu::noinline]] void* finish_alloc_of_caller(TraceTable* table, void* object, uint64_t size,
                                               const void* frame, uint64_t saved,
                                               RecentStack* recent) {
  if (!record_of_caller(table, object, size, frame, recent)) [[unlikely]]
    return finish_alloc(table, object, size, frame, saved);
  slab_os_irq_restore(saved);
  return object;
}

// The entry at the stack's place does not have it (RecentStack::readdress: `from`). That which
// does, or which takes it over if only return addresses are others. nullptr if there is none, or it
// cannot be stored at once.
[[gnu::always_inline]] inline RecentStack* find_stack(uint64_t frame_pointer, StackScope scope,
                                                      const Cpu& cpu,
                                                      const RecentStack::Frame* from) {
  if (RecentStack* const found = find_recent(frame_pointer, scope, cpu, &from)) return found;
  RecentStack* const recent = recent_place(frame_pointer, cpu);
  if (!recent->readdress(from, frame_pointer, scope, cpu.kernel_stack)) [[unlikely]]
    return nullptr;
  const uint32_t id = trace_stacks.find_packed(recent->frames(), recent->sum());
  if (id == 0) [[unlikely]]
    return nullptr;
  recent->name(id);
  return recent;
}

// False if there is none, or not all else is at hand.
[[gnu::always_inline]] inline bool record_found(TraceTable* table, const void* object,
                                                uint64_t size, uint64_t frame_pointer,
                                                const RecentStack::Frame* from) {
  const ProbesOffHere no_hit;
  const Cpu& cpu = this_cpu();
  RecentStack* const recent = find_stack(frame_pointer, table->scope(), cpu, from);
  return recent && (cpu.interrupt_depth == 0 || !trace_in_interrupt(cpu)) &&
         trace_contexts.remembers(cpu.current->trace_context) &&
         find_pair(*recent, *cpu.current, cpu) &&
         table->record_at_once(reinterpret_cast<uint64_t>(object), size, recent->named(),
                               static_cast<uint32_t>(cpu.current->trace_context), cpu.stamp);
}

[[gnu::noinline]] void* finish_alloc_of_stack(TraceTable* table, void* object, uint64_t size,
                                              const void* frame, uint64_t saved,
                                              const RecentStack::Frame* from) {
  if (!record_found(table, object, size, reinterpret_cast<uint64_t>(frame), from)) [[unlikely]]
    return finish_alloc(table, object, size, frame, saved);
  slab_os_irq_restore(saved);
  return object;
}

TraceTable* table_of(kmem_cache* cache) {
  return reinterpret_cast<TraceTable*>(kmem_cache_trace(cache));
}

[[gnu::noinline, gnu::cold]] void finish_free(TraceTable* table, const void* object,
                                              uint64_t saved) {
  ASSERT(table);
  table->forget(reinterpret_cast<uint64_t>(object), cpu_id());
  slab_os_irq_restore(saved);
}

// Fast path: everything is wanted, stack and context are known, and the table has a record to
// spare. It calls nothing, so that no register need be saved for it, and so does what sampling
// passes over. Anything else begins afresh.
[[gnu::always_inline]] inline void* trace_alloc(TraceTable* table, void* object, size_t requested,
                                                const void* frame, uint64_t saved) {
  const auto address = reinterpret_cast<uint64_t>(object);
  if (table->selects()) [[unlikely]] {
    const uint64_t cpu = cpu_index();
    if (requested > table->most_sampled() || !samplers[cpu].sampler.pass(requested, table->step()))
      return finish_selected(table, object, requested, frame, saved);
    table->filter(cpu);
    slab_os_irq_restore(saved);
    return object;
  }
  const auto frame_pointer = reinterpret_cast<uint64_t>(frame);
  RecentStack* const recent = recent_place(frame_pointer, cpu_index());
  static_assert(RecentStack::kTruncated == TraceTable::kFlag);
  if (!recent->is_at(frame_pointer, table->scope(), kernel_stack_top())) [[unlikely]]
    return finish_alloc_of_stack(table, object, requested, frame, saved, nullptr);
  // The frame is in the entry too, and is from there, so that nothing need keep it meanwhile.
  if (const RecentStack::Frame* const differs = recent->differs_below(kernel_stack_top))
      [[unlikely]]
    return finish_alloc_of_stack(table, object, requested, recent->first_frame(), saved, differs);
  const TaskHead& task = *current_task_head();
  if (in_interrupt_or_exception() || !trace_contexts.remembers(task.trace_context)) [[unlikely]]
    return finish_alloc_of_task(table, object, requested, recent->first_frame(), saved, recent);
  if (!recent->knows(task.trace_call)) [[unlikely]]
    return finish_alloc_of_caller(table, object, requested, recent->first_frame(), saved, recent);
  if (!table->record_known(
          address, requested, cpu_index(), [table] { return table->current_mark(); },
          [recent] { return recent->named(); },
          [] { return static_cast<uint32_t>(current_task_head()->trace_context); },
          [] { return current_stamp(); })) [[unlikely]]
    return finish_record(table, object, requested, recent->named(), saved);
  slab_os_irq_restore(saved);
  return object;
}

[[gnu::always_inline]] inline void trace_free(TraceTable* table, void* object, uint64_t saved) {
  const auto address = reinterpret_cast<uint64_t>(object);
  if (table->has_few() && table->has_none(address)) [[unlikely]] {
    table->count_unmatched(cpu_index());
    slab_os_irq_restore(saved);
    return;
  }
  if (!table->forget_at_once(address, cpu_index())) [[unlikely]] {
    finish_free(table, object, saved);
    return;
  }
  slab_os_irq_restore(saved);
}

}  // namespace

// From the time, so that a run that is repeated instruction by instruction takes the same samples.
void trace_seed_samplers() {
  for (CpuSampler& cpu : samplers) {
    if (!cpu.sampler.seeded()) cpu.sampler.seed(tsc());
  }
}

// A reference is recorded as an object whose address is its number. What it refers to stands where
// the size would: see TraceTable::place_of().
ALLOCATOR_TEXT uint64_t ref_trace_take(RefKind kind, const void* object) {
  const uint64_t saved = slab_os_irq_save();
  Cpu& cpu = this_cpu();
  if (static_cast<int64_t>(cpu.refs[static_cast<unsigned>(kind)].taken) >= 0) [[unlikely]] {
    slab_os_irq_restore(saved);
    return 0;
  }
  const uint64_t number = ++cpu.refs_numbered << kStampCpuBits | cpu.id;
  return reinterpret_cast<uint64_t>(trace_alloc(
      reinterpret_cast<TraceTable*>(ref_class(kind).trace), reinterpret_cast<void*>(number),
      TraceTable::place_of(object), __builtin_frame_address(0), saved));
}

// The trace may have ended since the reference was taken.
ALLOCATOR_TEXT void ref_trace_put(RefKind kind, uint64_t number) {
  const uint64_t saved = slab_os_irq_save();
  if (static_cast<int64_t>(this_cpu().refs[static_cast<unsigned>(kind)].put) >= 0) [[unlikely]]
    return slab_os_irq_restore(saved);
  trace_free(reinterpret_cast<TraceTable*>(ref_class(kind).trace), reinterpret_cast<void*>(number),
             saved);
}

void* slab_trace_alloc(kmem_cache* cache, void* object, size_t requested, const void* frame,
                       uint64_t saved) {
  return trace_alloc(table_of(cache), object, requested, frame, saved);
}

void slab_trace_free(kmem_cache* cache, void* object, uint64_t saved) {
  trace_free(table_of(cache), object, saved);
}

void* arena_trace_alloc(trace_table* trace, void* address, size_t requested, const void* frame,
                        uint64_t saved) {
  auto* const table = reinterpret_cast<TraceTable*>(trace);
  if (!TraceTable::holds(reinterpret_cast<uint64_t>(address)) ||
      requested >= TraceTable::kLargeSize) [[unlikely]]
    return finish_selected(table, address, requested, frame, saved);
  return trace_alloc(table, address, requested, frame, saved);
}

void arena_trace_free(trace_table* trace, void* address, uint64_t saved) {
  trace_free(reinterpret_cast<TraceTable*>(trace), address, saved);
}
