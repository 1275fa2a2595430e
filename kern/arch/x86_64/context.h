// Switching between kernel stacks.
#pragma once

#include <cstddef>
#include <cstdint>

// The size of a kernel stack in bytes, a multiple of the page size; boot.S repeats the values. Code
// that is built with a sanitizer needs larger stacks.
#if defined(CONFIG_UBSAN) || defined(CONFIG_KASAN)
inline constexpr size_t kKernelStackSize = 32 * 1024;
#else
inline constexpr size_t kKernelStackSize = 16 * 1024;
#endif

// The callee-saved registers lie on the stack, at `stack_pointer`.
struct Context {
  uint64_t stack_pointer = 0;
};

// Saves the caller's registers on its stack and the stack pointer in *from, and continues as *to.
// Interrupts are off in both contexts.
extern "C" void context_switch(Context* from, const Context* to);
// Makes a context that calls entry(argument) on the stack below `stack_top`, with interrupts off;
// entry must not return. The chain of frame pointers ends at the start of the context.
void context_init(Context& context, uint64_t stack_top, void (*entry)(void*), void* argument);

// Sets the kernel stack on which this CPU enters the kernel from user mode: the stack of the task
// that runs next.
void set_kernel_stack(uint64_t stack_top);
