// Stack walks by frame pointers.
#pragma once

#include <cstddef>
#include <cstdint>

// Writes up to `max` return addresses of the kernel stack, innermost first, beginning with the
// return address in the frame at `frame_pointer` (__builtin_frame_address(0)). Ends at the end of
// the stack or, in an interrupt, at the interrupt's entry, so that the interrupted task does not
// show. Never faults: it stays inside of its first stack. Returns how many. Any context.
size_t walk_kernel_stack(uint64_t frame_pointer, uint64_t* program_counters, size_t max);

// The same for the stack, from `stack_base` up to `stack_top`, of a task that does not run: begins
// where the task left its CPU, and continues through interrupts. Returns 0 if `context` does not
// point into the stack. The task must not run meanwhile.
struct Context;
size_t walk_saved_stack(const Context& context, uint64_t stack_base, uint64_t stack_top,
                        uint64_t* program_counters, size_t max);

// The same for the user stack with which the current task entered the kernel by a system call,
// fault or interrupt. Begins with the instruction after the system call, or the interrupted
// instruction's address plus one, so that subtracting one gives an address in the function, as for
// a return address. A frame that is not mapped at the moment, not aligned, not above the previous
// one or not in user space ends the walk. The task has been in user mode. Interrupts off; any
// context but NMI; never sleeps. Bound: `max` loads, of which one may fault.
//
// frame_pointers[i], from 1 on, is the frame that program_counters[i] was found in. If there were
// fewer than `max`, the next entry is the frame pointer at which the walk ended. Callers that do
// not need them pass the same array twice.
size_t walk_user_stack(uint64_t* program_counters, uint64_t* frame_pointers, size_t max);

// The same where a function of a program is being called (at the breakpoint on its first
// instruction, before it has a frame) or is about to return. A call begins with the address after
// the function's five-byte nop; then follow the return address on top of the stack, its caller's,
// and so on. Only while such a breakpoint is being handled.
size_t walk_user_stack_of_call(bool returning, uint64_t* program_counters, size_t max);
// True if the function that was called with `return_address` at `stack_pointer` is still among the
// callers of the one that is being called, or if the chain of frames is broken before that. Same
// context. Bound: kMaxCallers loads.
bool user_call_stands(uint64_t stack_pointer, uint64_t return_address);

struct TrapFrame;
// The same for a panic: *entered gets the trap frame at which the walk ended, or nullptr.
size_t walk_kernel_stack_to_trap(uint64_t frame_pointer, uint64_t* program_counters, size_t max,
                                 const TrapFrame** entered);
