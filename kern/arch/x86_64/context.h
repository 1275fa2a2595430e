// Switching between kernel stacks.
#pragma once

#include <cstddef>
#include <cstdint>

// A multiple of pages, known to boot.S. Checked code has larger frames.
#if defined(CONFIG_UBSAN) || defined(CONFIG_KASAN)
inline constexpr size_t kKernelStackSize = 32 * 1024;
#else
inline constexpr size_t kKernelStackSize = 16 * 1024;
#endif

// The callee-saved registers lie on the stack, at `stack_pointer`.
struct Context {
  uint64_t stack_pointer = 0;
};

// Saves the caller's registers in *from and continues as *to. Interrupts off on both sides.
extern "C" void context_switch(Context* from, const Context* to);
// Makes a context that calls entry(argument) on the stack below `stack_top`, interrupts off; entry
// must not return. The chain of frame pointers ends there.
void context_init(Context& context, uint64_t stack_top, void (*entry)(void*), void* argument);

// Sets per-CPU state of the task that runs next: the kernel stack for traps from user mode.
void set_kernel_stack(uint64_t stack_top);
