// What slab.c and arena.cc call: interrupts are off, on whatever stack and with whatever locks the caller of the allocator held.
//
// Nothing here allocates from a cache that can be traced, formats text or waits for anything but a short lock. Bound of
// an allocation: kPagesPerHook pages from the arena (mostly none), a walk of the frames asked for, one chain of the
// stack table, the split of one bucket; once for each system call also a walk of kUserStackDepth user frames and one more
// chain of the stack table and two of the context table. Bound of a free: one chain. What filters and sampling keep out costs a
// counter.
#include <algorithm>

#include "arch/x86_64/frames.h"
#include "arch/x86_64/time.h"
#include "cpu.h"
#include "log.h"
#include "recent_stacks.h"
#include "slab_trace.h"
#include "trace_memory.h"
#include "tracer.h"

extern "C" {
// Functions of the allocator lie between them (kernel.ld).
extern const char allocator_text_start[];
extern const char allocator_text_end[];
}

namespace {

// kmem_cache_alloc under kmalloc under an ObjectCache, and some to spare.
constexpr size_t kAllocatorFrames = 6;

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

[[gnu::noinline]] Stack walk_stack(RecentStack* recent, uint64_t frame_pointer, uint32_t depth, const Cpu& cpu) {
  const uint32_t max = kAllocatorFrames + depth + 1;
  if (const size_t count = recent ? recent->walk(frame_pointer, max, cpu) : 0) {
    const Stack stack = store_stack(recent->return_addresses(), count, depth);
    if (stack.id != 0) recent->name(stack.id, stack.truncated);
    return stack;
  }
  uint64_t frames[kAllocatorFrames + StackTable::kMaxFrames + 1];
  return store_stack(frames, walk_kernel_stack(frame_pointer, frames, max), depth);
}

Stack current_stack(const void* frame, uint32_t depth, const Cpu& cpu) {
  const auto frame_pointer = reinterpret_cast<uint64_t>(frame);
  RecentStack* recent = recent_stack(frame_pointer, cpu);
  if (recent && recent->matches(frame_pointer, kAllocatorFrames + depth + 1, cpu)) {
    return {recent->id(), recent->truncated()};
  }
  return walk_stack(recent, frame_pointer, depth, cpu);
}

void record_allocation(TraceTable* table, const void* object, size_t requested, const void* frame_pointer) {
  const Cpu& cpu = this_cpu();
  ASSERT(!cpu.in_nmi);
  ASSERT(table);
  const TraceOptions& options = table->options();
  const auto size = static_cast<uint32_t>(std::min<size_t>(requested, UINT32_MAX));
  if (table->selects() && (!wanted(options, size) || !sampled(*table, size, cpu))) {
    table->filter(reinterpret_cast<uint64_t>(object));
    return;
  }
  if (trace_memory_low()) [[unlikely]]
    trace_memory_prepare();
  const Stack stack = current_stack(frame_pointer, options.depth, cpu);
  const CurrentContext context = trace_current_context();
  table->record({.object = reinterpret_cast<uint64_t>(object),
                 .size = size,
                 .stack = stack.id,
                 .context = context.id,
                 .time = coarse_milliseconds(),
                 .cpu = static_cast<uint16_t>(cpu.id),
                 .truncated = stack.truncated != 0,
                 .user_stack_lost = context.user_stack_lost != 0});
}

// As trace_table_of(), in fewer steps.
TraceTable* table_of(kmem_cache* cache) {
  return reinterpret_cast<TraceTable*>(__atomic_load_n(kmem_cache_trace_slot(cache), __ATOMIC_ACQUIRE));
}

void record_free(TraceTable* table, const void* object) {
  ASSERT(table);
  table->forget(reinterpret_cast<uint64_t>(object));
}

}  // namespace

// From the time, so that a run that is repeated instruction by instruction takes the same samples.
void trace_seed_samplers() {
  for (CpuSampler& cpu : samplers) {
    if (!cpu.sampler.seeded()) cpu.sampler.seed(tsc());
  }
}

void* slab_trace_alloc(kmem_cache* cache, void* object, size_t requested, const void* frame_pointer) {
  record_allocation(table_of(cache), object, requested, frame_pointer);
  return object;
}

void arena_trace_alloc(struct arena* arena, void* address, size_t requested, const void* frame_pointer) {
  record_allocation(trace_table_of(arena), address, requested, frame_pointer);
}

void arena_trace_free(struct arena* arena, void* address) {
  record_free(trace_table_of(arena), address);
}

void slab_trace_free(kmem_cache* cache, void* object) {
  record_free(table_of(cache), object);
}
