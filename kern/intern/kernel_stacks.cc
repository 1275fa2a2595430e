#include "intern/kernel_stacks.h"

#include <algorithm>

#include "arch/x86_64/frames.h"
#include "intern/shared_tables.h"
#include "slab_trace.h"

namespace {

// Walks and interns a stack that cannot be held in an entry of the CPU's recent stacks
// (recent_stacks_impl.h).
// stack: a frame of up to 640 bytes, because the frames of a whole stack are on it. This code runs
// with interrupts off, in hooks, where no memory can be allocated.
[[gnu::noinline, gnu::cold]] RecordedStack walk_stack(uint64_t frame_pointer, StackScope scope) {
  uint64_t frames[StackScope::callers(StackTable::kMaxFrames).walk()];
  const size_t count = walk_kernel_stack(frame_pointer, frames, scope.walk());
  size_t first = 0;
  while (scope.skips_allocator() && first < count && in_allocator(frames[first])) first++;
  const size_t callers = count - first;
  return {trace_stacks.intern(StackKind::kKernel, frames + first,
                              std::min<size_t>(callers, scope.depth())),
          callers > scope.depth()};
}

// Finds the number of a stack that no recent entry holds. `recent` is the entry at the stack's
// index; `from` is the value that find_recent() stored. If `recent` differs from the stack in
// return addresses only, changes `recent` to hold the stack. Otherwise fills the entry that
// replace_recent() returns.
RecordedStack find_other_stack(uint64_t frame_pointer, StackScope scope, const Cpu& cpu,
                               RecentStack* recent, const RecentStack::Frame* from,
                               RecentStack** kept) {
  if (!recent->readdress(from, frame_pointer, scope, cpu.kernel_stack)) {
    recent = replace_recent(frame_pointer, cpu);
    if (!recent || !recent->refresh(frame_pointer, scope, cpu.kernel_stack, in_allocator))
        [[unlikely]]
      return walk_stack(frame_pointer, scope);
  }
  const StackId id = trace_stacks.intern_packed(recent->frames(), recent->sum());
  if (id != StackId::kNone) {
    recent->name(id);
    *kept = recent;
  }
  return {id, recent->truncated()};
}

// Finds the number of the kernel stack. *kept becomes the CPU's entry that now holds the stack;
// nullptr if there is none.
RecordedStack find_kernel_stack(uint64_t frame_pointer, StackScope scope, const Cpu& cpu,
                                RecentStack** kept) {
  *kept = nullptr;
  // Before the CPU has its first task no entry is filled, because a hook that finds an entry uses
  // the current task.
  if (!cpu.current) return walk_stack(frame_pointer, scope);
  RecentStack* recent = recent_place(frame_pointer, cpu);
  const RecentStack::Frame* from = nullptr;
  if (!recent->is_at(frame_pointer, scope, cpu.kernel_stack) ||
      (from = recent->differs(cpu.kernel_stack))) {
    RecentStack* const found = find_recent(frame_pointer, scope, cpu, &from);
    if (!found) {
      recent = recent_place(frame_pointer, cpu);
      return find_other_stack(frame_pointer, scope, cpu, recent, from, kept);
    }
    recent = found;
  }
  *kept = recent;
  return RecordedStack(recent->stack());
}

}  // namespace

RecordedStack record_kernel_stack(uint64_t frame_pointer, StackScope scope, const Cpu& cpu) {
  RecentStack* kept;
  return find_kernel_stack(frame_pointer, scope, cpu, &kept);
}

RecordedStack record_stack(uint64_t frame_pointer, StackScope scope, const Cpu& cpu,
                           TraceCaller caller) {
  RecentStack* kept;
  const RecordedStack kernel = find_kernel_stack(frame_pointer, scope, cpu, &kept);
  if (kept && kept->knows(caller)) return RecordedStack(kept->named());
  const StackId user = stack_in(caller);
  if (user == StackId::kNone) return RecordedStack(kernel.word() | RecordedStack(caller).word());
  if (kernel.id() == StackId::kNone) return kernel;
  const StackId pair = trace_stacks.intern_pair({kernel.id(), user});
  if (pair == StackId::kNone) return RecordedStack(kernel.word() | RecordedStack::kUserStackLost);
  if (kept) kept->pair(caller, pair);
  return {pair, kernel.truncated() || is_truncated(caller)};
}
