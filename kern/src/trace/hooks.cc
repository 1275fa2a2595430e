// What slab.c and arena.cc call: interrupts are off, on whatever stack and with whatever locks the
// caller of the allocator held.
//
// Nothing here allocates from a cache that can be traced, formats text or waits for anything but a
// short lock. Bound of an allocation: kPagesPerHook pages from the arena (mostly none), four walks
// of the frames asked for, one chain of the stack table, the split of one bucket; once for each
// system call also a walk of kUserStackDepth user frames and one more chain of the stack table and
// two of the context table. Bound of a free: one chain. What filters and sampling keep out costs a
// counter.
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
  const RecordedStack stack =
      record_kernel_stack(reinterpret_cast<uint64_t>(frame), table->scope(), cpu);
  uint32_t remembered;
  if (stack.id() != 0 && size < TraceTable::kLargeSize &&
      trace_remembered_context(cpu, &remembered)) [[likely]] {
    if (table->record_at_once(reinterpret_cast<uint64_t>(object), size, stack.word(), remembered,
                              cpu.stamp))
      return;
  }
  const CurrentContext context = trace_find_context();
  table->record({.object = reinterpret_cast<uint64_t>(object),
                 .size = size,
                 .stack = stack.id(),
                 .context = context.id,
                 .time = coarse_milliseconds(),
                 .cpu = static_cast<uint16_t>(cpu.id),
                 .truncated = stack.truncated() || context.user_stack == UserStack::kCut,
                 .user_stack_lost = context.user_stack == UserStack::kLost});
}

[[gnu::noinline, gnu::cold]] void* finish_alloc(TraceTable* table, void* object, uint64_t size,
                                                const void* frame, uint64_t saved) {
  record_allocation(table, object, size, frame);
  slab_os_irq_restore(saved);
  return object;
}

// Stack and context are known, but the shard has no record to spare, or others hold it.
void record_known(TraceTable* table, const void* object, uint64_t size, uint64_t stack,
                  uint32_t context) {
  const ProbesOffHere no_hit;
  const Cpu& cpu = this_cpu();
  ASSERT(!cpu.in_nmi);
  if (trace_memory_low()) [[unlikely]]
    trace_memory_prepare();
  table->record({.object = reinterpret_cast<uint64_t>(object),
                 .size = size,
                 .stack = static_cast<uint32_t>(stack),
                 .context = context,
                 .time = coarse_milliseconds(),
                 .cpu = static_cast<uint16_t>(cpu.id),
                 .truncated = (stack & TraceTable::kFlag) != 0});
}

[[gnu::noinline]] void* finish_record(TraceTable* table, void* object, uint64_t size,
                                      uint64_t stack, uint32_t context, uint64_t saved) {
  record_known(table, object, size, stack, context);
  slab_os_irq_restore(saved);
  return object;
}

// The stack is not that of the CPU's entry, which `differs` from it. Mostly it is still one that is
// known, and only return addresses are others. False if it is not so, or not all else is at hand.
[[gnu::always_inline]] inline bool record_readdressed(TraceTable* table, const void* object,
                                                      uint64_t size, const void* frame,
                                                      const RecentStack::Frame* differs) {
  const ProbesOffHere no_hit;
  const Cpu& cpu = this_cpu();
  const auto frame_pointer = reinterpret_cast<uint64_t>(frame);
  RecentStack* const recent = recent_place(frame_pointer, cpu);
  if (!recent->readdress(differs, frame_pointer, table->scope(), cpu)) [[unlikely]]
    return false;
  const uint32_t id = trace_stacks.find_packed(recent->frames(), recent->sum());
  if (id == 0) [[unlikely]]
    return false;
  recent->name(id);
  uint32_t context;
  return trace_remembered_context(cpu, &context) &&
         table->record_at_once(reinterpret_cast<uint64_t>(object), size, recent->stack(), context,
                               cpu.stamp);
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
  const RecentStack* const recent = recent_place(frame_pointer, cpu);
  static_assert(RecentStack::kTruncated == TraceTable::kFlag);
  if (table->selects()) [[unlikely]]
    return finish_alloc(table, object, requested, frame, saved);
  const RecentStack::Frame* const differs = recent->differs(frame_pointer, table->scope(), cpu);
  if (differs) [[unlikely]]
    return finish_alloc_of_stack(table, object, requested, frame, saved, differs);
  uint32_t context;
  if (!trace_remembered_context(cpu, &context)) [[unlikely]]
    return finish_alloc(table, object, requested, frame, saved);
  const uint64_t stack = recent->stack();
  if (!table->record_at_once(reinterpret_cast<uint64_t>(object), requested, stack, context,
                             cpu.stamp)) [[unlikely]]
    return finish_record(table, object, requested, stack, context, saved);
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

void arena_trace_alloc(struct arena* arena, void* address, size_t requested,
                       const void* frame_pointer) {
  record_allocation(trace_table_of(arena), address, requested, frame_pointer);
}

void arena_trace_free(struct arena* arena, void* address) {
  record_free(trace_table_of(arena), address);
}
