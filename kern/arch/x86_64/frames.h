// Walking stacks by frame pointers.
#pragma once

#include <cstddef>
#include <cstdint>

// Writes up to `max` return addresses of the kernel stack, innermost first, beginning with the
// return address in the frame that `frame_pointer` points at (__builtin_frame_address(0)). Ends at
// the stack's end or, in an interrupt, at the interrupt's entry, so that the interrupted task does
// not show. Never faults: it stays inside the stack that it began in. Returns how many. Any
// context.
size_t walk_kernel_stack(uint64_t frame_pointer, uint64_t* program_counters, size_t max);

// The same of the stack, from `stack_base` up to `stack_top`, of a task that does not run: first
// where it left its CPU. Goes on through interrupts. None if `context` does not point into the
// stack. The task does not run meanwhile.
struct Context;
size_t walk_saved_stack(const Context& context, uint64_t stack_base, uint64_t stack_top,
                        uint64_t* program_counters, size_t max);

// The same of the user stack from which the current task came into the kernel by a system call,
// fault or interrupt: first the instruction after the system call, or at which it was interrupted
// (plus one, so that one less lies in its function like that of a return address). What is not
// mapped right now, not aligned, not above the frame before or not in user space ends the walk. The
// task has been in user mode. Interrupts off; any context but NMI; never sleeps. Bound: `max`
// loads, of which one may fault.
//
// frame_pointers[i], from 1 on, is the frame in which program_counters[i] was found; behind these,
// if there were fewer than `max`, stands the frame pointer at which the walk ended. Who does not
// want them passes the same array twice.
size_t walk_user_stack(uint64_t* program_counters, uint64_t* frame_pointers, size_t max);

// The same where a function of a program is called (the breakpoint on its first instruction, before
// it has a frame) or is about to return: first, of a call, the address after the function's
// five-byte nop; then the return address, which stands on top of the stack, its caller's, and so
// on. Only while such a breakpoint is being handled.
size_t walk_user_stack_of_call(bool returning, uint64_t* program_counters, size_t max);
// Whether the function whose return address stands at `stack_pointer`, and was `return_address`
// when it was called, is among the callers of the one that is being called; also where the chain of
// frames cannot be followed so far. The same context. Bound: kMaxCallers loads.
bool user_call_stands(uint64_t stack_pointer, uint64_t return_address);

struct TrapFrame;
// The same for a panic, which also wants to know what was interrupted: *entered gets the trap frame
// at which the walk ended, or nullptr.
size_t walk_kernel_stack_to_trap(uint64_t frame_pointer, uint64_t* program_counters, size_t max,
                                 const TrapFrame** entered);
