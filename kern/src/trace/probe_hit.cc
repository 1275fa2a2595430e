// What a session does when a function is hit. Interrupts are off, any lock may be held, and nothing here is hit itself.
#include <algorithm>

#include "arch/x86_64/frames.h"
#include "probe_session.h"
#include "recent_stacks.h"
#include "trace_memory.h"

namespace {

struct FoundStack {
  uint32_t id;
  bool truncated;
};

// As the hooks of the allocator do it (hooks.cc), but all frames count.
[[gnu::noinline]] bool find_stack(RecentStack* recent, uint64_t frame_pointer, uint32_t depth, const Cpu& cpu,
                                  FoundStack* stack) {
  uint32_t data[RecentStack::kMaxFrames];
  StackTable::KernelFrames frames(data);
  const size_t count = recent->walk(
      frame_pointer, depth + 1, cpu, [&](uint64_t address) __attribute__((always_inline)) { frames.add(address); });
  if (count == 0) return false;
  stack->truncated = frames.cut(depth);
  if (!trace_stacks.find(frames, &stack->id)) return false;
  recent->name(stack->id, stack->truncated);
  return true;
}

FoundStack intern(StackKind kind, const uint64_t* frames, size_t count, uint32_t depth) {
  return {trace_stacks.intern(kind, frames, std::min<size_t>(count, depth)), count > depth};
}

[[gnu::noinline]] FoundStack kernel_stack(uint64_t frame_pointer, uint32_t depth, const Cpu& cpu) {
  RecentStack* recent = recent_stack(frame_pointer, cpu);
  FoundStack stack;
  if (recent && find_stack(recent, frame_pointer, depth, cpu, &stack)) return stack;
  uint64_t frames[kProbeMaxDepth + 1];
  stack = intern(StackKind::kKernel, frames, walk_kernel_stack(frame_pointer, frames, depth + 1), depth);
  // It is kept when it is found the next time.
  if (recent) recent->forget();
  return stack;
}

[[gnu::noinline]] FoundStack user_stack(bool returning, uint32_t depth) {
  uint64_t frames[kProbeMaxDepth + 1];
  return intern(StackKind::kUser, frames, walk_user_stack_of_call(returning, frames, depth + 1), depth);
}

// Taking a page from the arena takes locks and allocates. Whoever is hit may hold those locks, or be inside the allocator; then a
// later hit does it.
[[gnu::noinline, gnu::cold]] void top_up(const ProbeHit& hit, const Cpu& cpu) {
  if (hit.interrupts_on && cpu.held_locks == 0) trace_memory_prepare();
}

// The base that the current task remembers, if it is the one that is hit.
[[gnu::always_inline]] inline bool remembered_base(const Cpu& cpu, uint32_t* base) {
  if (cpu.interrupt_depth != 0 || !cpu.current) [[unlikely]]
    return false;
  *base = cpu.current->trace_base;
  return trace_contexts.valid(*base);
}

}  // namespace

bool ProbeSession::wanted(const Cpu& cpu) const {
  return (cpu_ == ProbeOptions::kAnyCpu || cpu_ == cpu.id) && (pid_ == 0 || pid_ == trace_current_pid());
}

void ProbeSession::hit(const ProbeHit& hit) {
  const Cpu& cpu = this_cpu();
  CpuPart& part = parts_[cpu.id];
  if (selects_ && !wanted(cpu)) [[unlikely]] {
    increment(part.filtered);
    return;
  }
  if (trace_memory_low()) [[unlikely]]
    top_up(hit, cpu);
  count(hit, rules_[hit.tag], cpu, part);
}

[[gnu::always_inline]] inline void ProbeSession::count(const ProbeHit& hit, const ProbeRule& rule, const Cpu& cpu,
                                                       CpuPart& part) {
  uint32_t stack = 0, context = 0;
  if (rule.user ? stacks_ : kernel_stacks_) {
    const RecentStack* recent = rule.user ? nullptr : recent_place(hit.frame_pointer, cpu);
    bool truncated = false;
    if (recent && recent->matches(hit.frame_pointer, depth_ + 1, cpu)) [[likely]] {
      stack = recent->id();
      truncated = recent->truncated();
    } else {
      const FoundStack found =
          rule.user ? user_stack(hit.returned, depth_) : kernel_stack(hit.frame_pointer, depth_, cpu);
      stack = found.id;
      truncated = found.truncated;
    }
    if (truncated) increment(part.truncated);
    if (stack == 0) [[unlikely]]
      increment(part.stacks_lost);
  }
  if (user_stacks_ && !rule.user) {
    const CurrentContext found = trace_find_context();
    context = found.id;
    if (found.user_stack_lost) increment(part.stacks_lost);
    if (context == 0) increment(part.contexts_lost);
  } else if (processes_ || (rule.user && stacks_)) {
    if (!remembered_base(cpu, &context)) context = trace_find_base();
    if (context == 0) increment(part.contexts_lost);
  }
  if (!part.counts.add(stack, context)) increment(part.lost);
}
