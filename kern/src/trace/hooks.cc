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

// Whether a sampling point lies in an allocation of `size` bytes.
bool sampled(const TraceTable& table, uint64_t size, const Cpu& cpu) {
  return table.step() == 0 || samplers[cpu.id].sampler.take(size, table.step());
}

void record_allocation(TraceTable* table, const void* object, uint64_t size, const void* frame) {
  const ProbesOffHere no_hit;
  const Cpu& cpu = this_cpu();
  ASSERT(!cpu.in_nmi);
  ASSERT(table);
  const TraceOptions& options = table->options();
  if (table->selects() && (!wanted(options, size) || !sampled(*table, size, cpu))) {
    table->filter(cpu.id);
    return;
  }
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

// Whether the entry knows the caller of the current task. If this is the first thing in a system
// call, the caller is asked for: mostly it is one that was met before. Where hits of probes may
// come, one may come here, when user memory faults, and use the entry for another stack; but then
// the answer is no.
[[gnu::always_inline]] inline bool knows_caller(const RecentStack& recent, const TaskHead& task) {
  uint64_t caller = task.trace_call;
  if (recent.knows(caller)) [[likely]]
    return true;
  if (caller != kTraceFromUser) return false;
  caller = recent_caller();
  return caller != 0 && recent.knows(caller);
}

// Sees to it that the entry, which has the kernel stack, knows the caller of the current task: it
// does not yet (knows_caller). False as make_pair().
[[gnu::always_inline]] inline bool find_pair(RecentStack& recent, TaskHead& task, const Cpu& cpu) {
  const uint64_t caller = task.trace_call;
  if (caller == kTraceFromUser) return make_pair(recent, task, cpu);
  const uint32_t pair =
      trace_stacks.find_pair({static_cast<uint32_t>(recent.stack()), caller_stack(caller)});
  if (pair == 0) [[unlikely]]
    return make_pair(recent, task, cpu);
  recent.pair(caller, pair);
  return true;
}

// The entry has the stack, but for another caller than that of the current task. Unless a probe's
// hit has come since: that has another frame. False if it is so, or not all else is at hand.
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

[[gnu::noinline]] void* finish_alloc_of_caller(TraceTable* table, void* object, uint64_t size,
                                               const void* frame, uint64_t saved,
                                               RecentStack* recent) {
  if (!record_of_caller(table, object, size, frame, recent)) [[unlikely]]
    return finish_alloc(table, object, size, frame, saved);
  slab_os_irq_restore(saved);
  return object;
}

// The stack is not that of the CPU's entry, which `differs` from it. Mostly it is still one that is
// known, and only return addresses are others: then the entry takes them over.
[[gnu::always_inline]] inline bool rename(RecentStack& recent, const RecentStack::Frame* differs,
                                          uint64_t frame_pointer, StackScope scope,
                                          const Cpu& cpu) {
  if (!recent.readdress(differs, frame_pointer, scope, cpu)) [[unlikely]]
    return false;
  const uint32_t id = trace_stacks.find_packed(recent.frames(), recent.sum());
  if (id == 0) [[unlikely]]
    return false;
  recent.name(id);
  return true;
}

// False if it is not so, or not all else is at hand.
[[gnu::always_inline]] inline bool record_readdressed(TraceTable* table, const void* object,
                                                      uint64_t size, const void* frame,
                                                      const RecentStack::Frame* differs) {
  const ProbesOffHere no_hit;
  const Cpu& cpu = this_cpu();
  const auto frame_pointer = reinterpret_cast<uint64_t>(frame);
  RecentStack* const recent = recent_place(frame_pointer, cpu);
  return rename(*recent, differs, frame_pointer, table->scope(), cpu) &&
         trace_context_remembered(cpu) &&
         (knows_caller(*recent, *cpu.current) || find_pair(*recent, *cpu.current, cpu)) &&
         table->record_at_once(reinterpret_cast<uint64_t>(object), size, recent->named(),
                               static_cast<uint32_t>(cpu.current->trace_context), cpu.stamp);
}

[[gnu::noinline]] void* finish_alloc_of_stack(TraceTable* table, void* object, uint64_t size,
                                              const void* frame, uint64_t saved,
                                              const RecentStack::Frame* differs) {
  if (!record_readdressed(table, object, size, frame, differs)) [[unlikely]]
    return finish_alloc(table, object, size, frame, saved);
  slab_os_irq_restore(saved);
  return object;
}

TraceTable* table_of(kmem_cache* cache) {
  return reinterpret_cast<TraceTable*>(kmem_cache_trace(cache));
}

void record_free(TraceTable* table, const void* object) {
  ASSERT(table);
  table->forget(reinterpret_cast<uint64_t>(object), cpu_id());
}

[[gnu::noinline, gnu::cold]] void finish_free(TraceTable* table, const void* object,
                                              uint64_t saved) {
  record_free(table, object);
  slab_os_irq_restore(saved);
}

}  // namespace

// From the time, so that a run that is repeated instruction by instruction takes the same samples.
void trace_seed_samplers() {
  for (CpuSampler& cpu : samplers) {
    if (!cpu.sampler.seeded()) cpu.sampler.seed(tsc());
  }
}

// What is mostly the case: everything is wanted, stack and context are known, and the table has a
// record to spare. That calls nothing, so that no register need be saved for it. What is otherwise
// begins afresh.
void* slab_trace_alloc(kmem_cache* cache, void* object, size_t requested, const void* frame,
                       uint64_t saved) {
  TraceTable* const table = table_of(cache);
  const Cpu& cpu = this_cpu();
  const auto frame_pointer = reinterpret_cast<uint64_t>(frame);
  RecentStack* const recent = recent_place(frame_pointer, cpu);
  static_assert(RecentStack::kTruncated == TraceTable::kFlag);
  if (table->selects()) [[unlikely]]
    return finish_alloc(table, object, requested, frame, saved);
  const RecentStack::Frame* const differs = recent->differs(frame_pointer, table->scope(), cpu);
  if (differs) [[unlikely]]
    return finish_alloc_of_stack(table, object, requested, frame, saved, differs);
  if (!trace_context_remembered(cpu)) [[unlikely]]
    return finish_alloc(table, object, requested, frame, saved);
  const TaskHead& task = *cpu.current;
  if (!knows_caller(*recent, task)) [[unlikely]]
    return finish_alloc_of_caller(table, object, requested, frame, saved, recent);
  if (!table->record_at_once(reinterpret_cast<uint64_t>(object), requested, recent->named(),
                             static_cast<uint32_t>(task.trace_context), cpu.stamp)) [[unlikely]]
    return finish_record(table, object, requested, recent->named(), saved);
  slab_os_irq_restore(saved);
  return object;
}

void slab_trace_free(kmem_cache* cache, void* object, uint64_t saved) {
  TraceTable* const table = table_of(cache);
  if (!table->forget_at_once(reinterpret_cast<uint64_t>(object), cpu_id())) [[unlikely]] {
    finish_free(table, object, saved);
    return;
  }
  slab_os_irq_restore(saved);
}

// The same short way, in one piece: most arenas are asked for the first time in a system call.
void arena_trace_alloc(struct arena* arena, void* address, size_t requested,
                       const void* frame_pointer) {
  const ProbesOffHere no_hit;
  TraceTable* const table = trace_table_of(arena);
  const Cpu& cpu = this_cpu();
  const auto object = reinterpret_cast<uint64_t>(address),
             pointer = reinterpret_cast<uint64_t>(frame_pointer);
  RecentStack& recent = *recent_place(pointer, cpu);
  if (table->selects() || !TraceTable::holds(object) || requested >= TraceTable::kLargeSize)
      [[unlikely]]
    return record_allocation(table, address, requested, frame_pointer);
  const RecentStack::Frame* const differs = recent.differs(pointer, table->scope(), cpu);
  if ((differs && !rename(recent, differs, pointer, table->scope(), cpu)) ||
      !trace_context_remembered(cpu) ||
      (!knows_caller(recent, *cpu.current) && !find_pair(recent, *cpu.current, cpu)) ||
      !table->record_at_once(object, requested, recent.named(),
                             static_cast<uint32_t>(cpu.current->trace_context), cpu.stamp))
      [[unlikely]]
    record_allocation(table, address, requested, frame_pointer);
}

void arena_trace_free(struct arena* arena, void* address) {
  record_free(trace_table_of(arena), address);
}
