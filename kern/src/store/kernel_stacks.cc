#include "store/kernel_stacks.h"

#include <algorithm>

#include "arch/x86_64/frames.h"
#include "store/shared_tables.h"

extern "C" {
// Functions of the allocator lie between these addresses (kernel.ld).
extern const char allocator_text_start[];
extern const char allocator_text_end[];
}

namespace {

bool in_allocator(uint64_t return_address) {
  return return_address > reinterpret_cast<uint64_t>(allocator_text_start) &&
         return_address <= reinterpret_cast<uint64_t>(allocator_text_end);
}

// Walks and interns a stack that no entry of the CPU can hold.
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

// The number of a stack that no entry has. If the entry at its index, `recent`, differs in return
// addresses only, changes that entry.
RecordedStack find_other_stack(uint64_t frame_pointer, StackScope scope, const Cpu& cpu,
                               RecentStack* recent, const RecentStack::Frame* from,
                               RecentStack** kept) {
  if (!recent->readdress(from, frame_pointer, scope, cpu.kernel_stack)) {
    recent = replace_recent(frame_pointer, cpu);
    if (!recent || !recent->refresh(frame_pointer, scope, cpu.kernel_stack, in_allocator))
        [[unlikely]]
      return walk_stack(frame_pointer, scope);
  }
  const uint32_t id = trace_stacks.intern_packed(recent->frames(), recent->sum());
  if (id != 0) {
    recent->name(id);
    *kept = recent;
  }
  return {id, recent->truncated()};
}

// The number of the kernel stack; *kept becomes the CPU's entry that has it now, nullptr if none
// has.
RecordedStack find_kernel_stack(uint64_t frame_pointer, StackScope scope, const Cpu& cpu,
                                RecentStack** kept) {
  *kept = nullptr;
  // Keeps nothing before the CPU has its first task: a hook that finds an entry uses the current
  // task.
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
                           uint64_t caller) {
  RecentStack* kept;
  const RecordedStack kernel = find_kernel_stack(frame_pointer, scope, cpu, &kept);
  if (kept && kept->knows(caller)) return RecordedStack(kept->named());
  const uint32_t user = caller_stack(caller);
  if (user == 0) return RecordedStack(kernel.word() | (caller & kCallerLost));
  if (kernel.id() == 0) return kernel;
  const uint32_t pair = trace_stacks.intern_pair({kernel.id(), user});
  if (pair == 0) return RecordedStack(kernel.word() | RecordedStack::kUserStackLost);
  if (kept) kept->pair(caller, pair);
  return {pair, kernel.truncated() || (caller & kStackTruncated) != 0};
}
