// Stack walks by frame pointers. Every function keeps a frame pointer. Every entry into the kernel
// and every task begins with rbp = 0, which ends a walk.
#include "arch/x86_64/frames.h"

#include "arch/x86_64/context.h"
#include "arch/x86_64/cpu_setup.h"
#include "arch/x86_64/paging.h"
#include "arch/x86_64/trap.h"
#include "core/cpu.h"
#include "core/user_memory.h"

extern "C" const char trap_entries_start[], trap_entries_end[];
extern "C" size_t user_frames(uint64_t frame_pointer, uint64_t low, uint64_t high,
                              uint64_t* return_addresses, size_t max);

static_assert(kUserEnd == 0x7ffffffff000, "USER_END in user_copy.S");

namespace {

struct Bounds {
  uint64_t low, high;
};

// Returns the stack of this CPU that contains `address`; an empty range if none does. A single load
// through GS reads the top of the task's stack. So the result is right even if the task moves to
// another CPU meanwhile.
Bounds stack_of(uint64_t address) {
  uint64_t top;
  asm volatile("movq %%gs:8, %0" : "=r"(top));
  if (address < top && address >= top - kKernelStackSize) return {top - kKernelStackSize, top};
  const CpuTables& tables = cpu_tables(cpu_id());
  if (address < tables.first_stack && address >= tables.first_stack - kKernelStackSize) {
    return {tables.first_stack - kKernelStackSize, tables.first_stack};
  }
  for (unsigned i = 0; i < kIstCount; i++) {
    const uint64_t ist = tables.tss.ist[i];
    if (address < ist && address >= ist - kIstStackSize) return {ist - kIstStackSize, ist};
  }
  return {0, 0};
}

// Indices of words that context_switch leaves on the stack: five registers, the frame pointer, the
// return address.
constexpr size_t kSavedFramePointer = 5, kSavedReturn = 6;

// Walks from the frame at `frame_pointer` upwards, inside `bounds`.
size_t walk(Bounds bounds, uint64_t frame_pointer, uint64_t* program_counters, size_t max) {
  size_t n = 0;
  while (n < max && frame_pointer >= bounds.low && frame_pointer + 16 <= bounds.high &&
         (frame_pointer & 7) == 0) {
    const auto* frame = reinterpret_cast<const uint64_t*>(frame_pointer);
    if (frame[1] == 0) break;
    program_counters[n++] = frame[1];
    bounds.low = frame_pointer + 16;  // frames go upwards only
    frame_pointer = frame[0];
  }
  return n;
}

// Returns the trap frame if `return_address` lies in an entry of entry.S, otherwise nullptr. Two
// words lie between the frame pointer and the trap frame: the frame pointer that the called C++
// function pushed, at `frame_pointer`, and the return address that the entry's call pushed.
const TrapFrame* trap_frame_above(uint64_t frame_pointer, uint64_t return_address) {
  const bool is_entry = return_address > reinterpret_cast<uint64_t>(trap_entries_start) &&
                        return_address <= reinterpret_cast<uint64_t>(trap_entries_end);
  return is_entry ? reinterpret_cast<const TrapFrame*>(frame_pointer + 16) : nullptr;
}

}  // namespace

size_t walk_kernel_stack(uint64_t frame_pointer, uint64_t* program_counters, size_t max) {
  return walk(stack_of(frame_pointer), frame_pointer, program_counters, max);
}

size_t walk_saved_stack(const Context& context, uint64_t stack_base, uint64_t stack_top,
                        uint64_t* program_counters, size_t max) {
  const uint64_t pointer = context.stack_pointer;
  if (max == 0 || pointer % 8 != 0 || pointer < stack_base ||
      pointer + (kSavedReturn + 1) * sizeof(uint64_t) > stack_top)
    return 0;
  const auto* const saved = reinterpret_cast<const uint64_t*>(pointer);
  program_counters[0] = saved[kSavedReturn];
  return 1 + walk({pointer, stack_top}, saved[kSavedFramePointer], program_counters + 1, max - 1);
}

size_t walk_user_stack(uint64_t* program_counters, size_t max) {
  const TrapFrame& entry = entered_from_user();
  if (max == 0) return 0;
  program_counters[0] = entry_address(entry);
  // Interrupts are off, so trap.cc does not resolve a page fault: user_frames() ends at the load
  // that faults.
  return 1 + user_frames(entry.rbp, entry.rsp, kUserEnd, program_counters + 1, max - 1);
}

size_t walk_user_stack_of_call(bool returning, uint64_t* program_counters, size_t max) {
  const TrapFrame& entry = entered_from_user();
  size_t n = 0;
  if (!returning && n < max) program_counters[n++] = entry.rip;
  if (n == max || entry.rsp % 8 != 0 || !load_user_word(entry.rsp, &program_counters[n])) return n;
  if (program_counters[n] == 0) return n;
  n++;
  // The walk begins at the caller's frame, because the function has not made its frame yet, or has
  // left it already.
  return n + user_frames(entry.rbp, entry.rsp + 8, kUserEnd, program_counters + n, max - n);
}

bool user_call_stands(uint64_t stack_pointer, uint64_t return_address) {
  constexpr unsigned kMaxCallers = 64;
  uint64_t stands;
  if (load_user_word(stack_pointer, &stands) && stands != return_address) return false;
  // A function's prologue pushes the frame pointer below the return address.
  const uint64_t wanted = stack_pointer - 8;
  uint64_t frame = (reinterpret_cast<const TrapFrame*>(this_cpu().kernel_stack) - 1)->rbp;
  for (unsigned i = 0; i < kMaxCallers && frame != wanted; i++) {
    if (frame > wanted) return false;
    uint64_t next;
    if (frame % 8 != 0 || !load_user_word(frame, &next) || next <= frame) return true;
    frame = next;
  }
  return true;
}

size_t walk_kernel_stack_to_trap(uint64_t frame_pointer, uint64_t* program_counters, size_t max,
                                 const TrapFrame** entered) {
  const Bounds bounds = stack_of(frame_pointer);
  *entered = nullptr;
  size_t n = 0;
  while (n < max && walk_kernel_stack(frame_pointer, &program_counters[n], 1) == 1) {
    *entered = trap_frame_above(frame_pointer, program_counters[n++]);
    const uint64_t next = *reinterpret_cast<const uint64_t*>(frame_pointer);
    if (*entered || next <= frame_pointer || next >= bounds.high) break;
    frame_pointer = next;
  }
  return n;
}
