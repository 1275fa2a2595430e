// Stack walks by frame pointers.
#pragma once

#include <cstddef>
#include <cstdint>

#include "arch/x86_64/trap.h"
#include "core/cpu.h"

// Writes up to `max` return addresses of the kernel stack, innermost first, beginning with the
// return address in the frame at `frame_pointer` (__builtin_frame_address(0)). Ends at the end of
// the stack or, in an interrupt, at the interrupt's entry, so the result never contains the
// interrupted code. Never faults, since the walk stays inside the stack on which it begins. Returns
// the number of addresses. Any context.
size_t walk_kernel_stack(uint64_t frame_pointer, uint64_t* program_counters, size_t max);

// Walks the kernel stack of a task that does not run. The stack reaches from `stack_base` up to
// `stack_top`. Writes up to `max` return addresses, innermost first. Begins where the task left its
// CPU. Ends at the end of the stack or, if an interrupt preempted the task, at the interrupt's
// entry. Returns the number of addresses; 0 if `context` does not point into the stack. If the task
// runs meanwhile, the addresses may be stale, but the walk stays inside the stack.
struct Context;
size_t walk_saved_stack(const Context& context, uint64_t stack_base, uint64_t stack_top,
                        uint64_t* program_counters, size_t max);

// Walks the user stack with which the current task entered the kernel by a system call, fault or
// interrupt. Writes up to `max` addresses and returns their number. The first address is that of
// the instruction after the system call, or the address of the interrupted instruction plus one. So
// subtracting one gives an address in the function, as for a return address. The walk ends at a
// frame that is not mapped at the moment, not aligned, not above the previous frame, or not in user
// space. The task must have been in user mode. Interrupts off; any context but NMI; never sleeps.
// Bound: 2 * `max` loads, of which one may fault.
size_t walk_user_stack(uint64_t* program_counters, size_t max);
// The registers with which the current task entered the kernel from user mode.
inline const TrapFrame& entered_from_user() {
  return *(reinterpret_cast<const TrapFrame*>(kernel_stack_top()) - 1);
}
// The first address that walk_user_stack() writes for these registers.
inline uint64_t entry_address(const TrapFrame& entry) {
  return entry.vector == kVectorSystemCall ? entry.rip : entry.rip + 1;
}

// Compares the addresses that walk_user_stack() would write with a stored stack's: `count` ones at
// `addresses`, at most kMaxStoredUserFrames. kDeeper: all are equal, they are kMaxStoredUserFrames,
// and the stack has more. kOther: they differ, or a load faulted. Context as for walk_user_stack().
// Bound: two loads for each of `addresses`. Calls nothing but assembly that changes few registers.
enum class UserStackIs : int32_t { kSame, kDeeper, kOther };
inline constexpr size_t kMaxStoredUserFrames = 16;
[[gnu::always_inline]] inline UserStackIs compare_user_stack(const TrapFrame& entry,
                                                             const uint64_t* addresses,
                                                             size_t count) {
  if (addresses[0] != entry_address(entry)) [[unlikely]]
    return UserStackIs::kOther;
  UserStackIs is;
  uint64_t frame_pointer = entry.rbp, low = entry.rsp;
  asm volatile("call same_user_frames"
               : "=a"(is), "+D"(frame_pointer), "+S"(low), "+d"(addresses)
               : "c"(count + 1)
               : "cc", "memory");
  return is;
}

// Walks the user stack at a probe's breakpoint: on a function's first instruction, before the
// function has a frame, or where the function is about to return (`returning`). For a call, the
// result begins with the address after the function's five-byte nop. Then follow the return address
// on top of the stack, the return address in the caller's frame, and so on. Called only while such
// a breakpoint is being handled.
size_t walk_user_stack_of_call(bool returning, uint64_t* program_counters, size_t max);
// Returns whether an earlier call of a user function is still running. That call stored
// `return_address` at `stack_pointer`. Returns false if this word has changed, or if the call is
// not among the callers of the function whose breakpoint is being handled. Returns true if the walk
// of these callers cannot tell, because a frame is bad or there are more than 64 frames. Called
// only while a probe's breakpoint is being handled. Bound: 65 loads.
bool user_call_stands(uint64_t stack_pointer, uint64_t return_address);

// Does what walk_kernel_stack() does, for a panic. *entered gets the trap frame at which the walk
// ended, or nullptr.
size_t walk_kernel_stack_to_trap(uint64_t frame_pointer, uint64_t* program_counters, size_t max,
                                 const TrapFrame** entered);
