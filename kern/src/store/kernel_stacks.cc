#include "store/kernel_stacks.h"

#include <algorithm>

#include "arch/x86_64/frames.h"
#include "store/shared_tables.h"

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

// Of a stack that no entry of the CPU can hold.
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

}  // namespace

RecordedStack record_kernel_stack(uint64_t frame_pointer, StackScope scope, const Cpu& cpu) {
  RecentStack* const recent = recent_place(frame_pointer, cpu);
  const RecentStack::Frame* const differs = recent->differs(frame_pointer, scope, cpu);
  if (!differs) return RecordedStack(recent->stack());
  if (recent == &no_recent_stack) return walk_stack(frame_pointer, scope);
  if (!recent->readdress(differs, frame_pointer, scope, cpu) &&
      !recent->refresh(frame_pointer, scope, cpu, in_allocator)) [[unlikely]] {
    return walk_stack(frame_pointer, scope);
  }
  const uint32_t id = trace_stacks.intern_packed(recent->frames(), recent->sum());
  if (id != 0) recent->name(id);
  return {id, recent->truncated()};
}
