// What slab.c and arena.cc call: interrupts are off, on whatever stack and with whatever locks the caller of the allocator held.
//
// Nothing here allocates from a cache that can be traced, formats text or waits for anything but a short lock. Bound of
// an allocation: kPagesPerHook pages from the arena (mostly none), a walk of the frames asked for, one chain of the
// stack table, the split of one bucket; once for each system call also a walk of kUserStackDepth user frames and one more
// chain of the stack table and two of the context table. Bound of a free: one chain. What filters and sampling keep out costs a
// counter.
//
// A hit of a probe uses the same tables, and may come wherever a function is called. So a hook that calls any keeps probes
// off; what is mostly the case calls none.
#include <algorithm>

#include "arch/x86_64/frames.h"
#include "arch/x86_64/time.h"
#include "cpu.h"
#include "log.h"
#include "probe_guard.h"
#include "recent_stacks.h"
#include "slab_os.h"
#include "slab_trace.h"
#include "trace_memory.h"
#include "tracer.h"

extern "C" {
// Functions of the allocator lie between them (kernel.ld).
extern const char allocator_text_start[];
extern const char allocator_text_end[];
}

namespace {

bool in_allocator(uint64_t return_address) {
  return return_address > reinterpret_cast<uint64_t>(allocator_text_start) &&
         return_address <= reinterpret_cast<uint64_t>(allocator_text_end);
}

bool wanted(const TraceOptions& options, uint32_t size) {
  return size >= options.min_size && size <= options.max_size &&
         (options.pid == 0 || options.pid == trace_current_pid());
}

struct alignas(64) CpuSampler {
  Sampler sampler;
};
constinit CpuSampler samplers[kMaxCpus];

// Whether a sampling point lies in an allocation of `size` bytes.
bool sampled(const TraceTable& table, uint32_t size, const Cpu& cpu) {
  return table.step() == 0 || samplers[cpu.id].sampler.take(size, table.step());
}

struct Stack {
  uint32_t id;
  uint32_t truncated;  // not 0: not all of it is recorded; a word, so that both are in one register
};

// The stack that was walked. `count` is at most one more than is wanted, which tells whether something is cut off.
Stack store_stack(const uint64_t* frames, size_t count, uint32_t depth) {
  size_t first = 0;
  while (first < count && in_allocator(frames[first])) first++;
  const size_t callers = count - first;
  return {trace_stacks.intern(StackKind::kKernel, frames + first, std::min<size_t>(callers, depth)), callers > depth};
}

// Walks, keeps, packs and hashes in one pass; false if the stack is not one that is known and can be kept.
[[gnu::noinline]] bool find_stack(RecentStack* recent, uint64_t frame_pointer, uint32_t depth, uint32_t max,
                                  const Cpu& cpu, Stack* stack) {
  uint32_t data[RecentStack::kMaxFrames];
  StackTable::KernelFrames frames(data);
  const size_t count = recent->walk(
      frame_pointer, max, cpu, [&](uint64_t address) __attribute__((always_inline)) {
        if (!frames.empty() || !in_allocator(address)) frames.add(address);
      });
  if (count == 0) return false;
  stack->truncated = frames.cut(depth);
  if (!trace_stacks.find(frames, &stack->id)) return false;
  recent->name(stack->id, stack->truncated);
  return true;
}

[[gnu::noinline]] Stack walk_stack(RecentStack* recent, uint64_t frame_pointer, uint32_t depth, uint32_t max) {
  uint64_t frames[TraceTable::kAllocatorFrames + StackTable::kMaxFrames + 1];
  const Stack stack = store_stack(frames, walk_kernel_stack(frame_pointer, frames, max), depth);
  // It is kept when it is found the next time.
  if (recent) recent->forget();
  return stack;
}

Stack current_stack(const void* frame, const TraceTable& table, const Cpu& cpu, bool compare) {
  const auto frame_pointer = reinterpret_cast<uint64_t>(frame);
  RecentStack* recent = recent_stack(frame_pointer, cpu);
  const uint32_t depth = table.options().depth, max = table.max_walk();
  if (recent) {
    if (compare && recent->matches(frame_pointer, max, cpu)) return {recent->id(), recent->truncated()};
    Stack stack;
    if (find_stack(recent, frame_pointer, depth, max, cpu, &stack)) return stack;
  }
  return walk_stack(recent, frame_pointer, depth, max);
}

// `compare`: whether the stack may be the one that is remembered.
void record_allocation(TraceTable* table, const void* object, uint32_t size, const void* frame_pointer,
                       bool compare = true) {
  const ProbesOffHere no_hit;
  const Cpu& cpu = this_cpu();
  ASSERT(!cpu.in_nmi);
  ASSERT(table);
  const TraceOptions& options = table->options();
  if (table->selects() && (!wanted(options, size) || !sampled(*table, size, cpu))) {
    table->filter(reinterpret_cast<uint64_t>(object));
    return;
  }
  if (trace_memory_low()) [[unlikely]]
    trace_memory_prepare();
  const Stack stack = current_stack(frame_pointer, *table, cpu, compare);
  uint64_t remembered;
  if (stack.id != 0 && trace_remembered_context(cpu, &remembered)) [[likely]] {
    const uint64_t word = stack.id | (stack.truncated ? TraceTable::kFlag : 0);
    if (table->record_at_once(reinterpret_cast<uint64_t>(object), size, word, remembered, cpu.id)) return;
  }
  const CurrentContext context = trace_find_context();
  table->record({.object = reinterpret_cast<uint64_t>(object),
                 .size = size,
                 .stack = stack.id,
                 .context = context.id,
                 .time = coarse_milliseconds(),
                 .cpu = static_cast<uint16_t>(cpu.id),
                 .truncated = stack.truncated != 0,
                 .user_stack_lost = context.user_stack_lost != 0});
}

[[gnu::noinline, gnu::cold]] void* finish_alloc(TraceTable* table, void* object, uint64_t size, const void* frame,
                                                uint64_t saved) {
  record_allocation(table, object, static_cast<uint32_t>(size), frame);
  slab_os_irq_restore(saved);
  return object;
}

// The same with a stack that is not the one remembered.
[[gnu::noinline, gnu::cold]] void* finish_alloc_of_stack(TraceTable* table, void* object, uint64_t size,
                                                         const void* frame, uint64_t saved) {
  record_allocation(table, object, static_cast<uint32_t>(size), frame, false);
  slab_os_irq_restore(saved);
  return object;
}

TraceTable* table_of(kmem_cache* cache) {
  return reinterpret_cast<TraceTable*>(kmem_cache_trace(cache));
}

void record_free(TraceTable* table, const void* object) {
  const ProbesOffHere no_hit;
  ASSERT(table);
  table->forget(reinterpret_cast<uint64_t>(object));
}

[[gnu::noinline, gnu::cold]] void finish_free(TraceTable* table, const void* object, uint64_t saved) {
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

// What is mostly the case: everything is wanted, stack and context are known, and the table has a record to spare. That
// calls nothing, so that no register need be saved for it. What is otherwise begins afresh.
void* slab_trace_alloc(kmem_cache* cache, void* object, size_t requested, const void* frame, uint64_t saved) {
  TraceTable* const table = table_of(cache);
  const Cpu& cpu = this_cpu();
  if (table->selects() || trace_memory_low()) [[unlikely]]
    return finish_alloc(table, object, requested, frame, saved);
  const auto frame_pointer = reinterpret_cast<uint64_t>(frame);
  const RecentStack* recent = recent_place(frame_pointer, cpu);
  if (!recent->matches(frame_pointer, table->max_walk(), cpu)) [[unlikely]]
    return finish_alloc_of_stack(table, object, requested, frame, saved);
  static_assert(RecentStack::kTruncated == TraceTable::kFlag && kUserStackLost == TraceTable::kFlag);
  uint64_t context;
  if (!trace_remembered_context(cpu, &context) ||
      !table->record_at_once(reinterpret_cast<uint64_t>(object), requested, recent->stack(), context, cpu.id))
      [[unlikely]] {
    return finish_alloc(table, object, requested, frame, saved);
  }
  slab_os_irq_restore(saved);
  return object;
}

void slab_trace_free(kmem_cache* cache, void* object, uint64_t saved) {
  TraceTable* const table = table_of(cache);
  if (!table->forget_at_once(reinterpret_cast<uint64_t>(object))) [[unlikely]] {
    finish_free(table, object, saved);
    return;
  }
  slab_os_irq_restore(saved);
}

void arena_trace_alloc(struct arena* arena, void* address, size_t requested, const void* frame_pointer) {
  record_allocation(trace_table_of(arena), address, static_cast<uint32_t>(std::min<size_t>(requested, UINT32_MAX)),
                    frame_pointer);
}

void arena_trace_free(struct arena* arena, void* address) {
  record_free(trace_table_of(arena), address);
}
