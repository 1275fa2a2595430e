// Contexts of kernel tasks, and the floating point state of user mode.
#include "arch/x86_64/context.h"

#include "lib/string.h"

extern "C" void context_start();

void context_init(Context& context, uint64_t stack_top, void (*entry)(void*), void* argument) {
  // What context_switch pops: r15 r14 r13 r12 rbx rbp, return address; above it a zero pair that
  // ends a walk.
  auto* stack = reinterpret_cast<uint64_t*>(stack_top) - 10;
  memset(stack, 0, 10 * sizeof(uint64_t));
  stack[2] = reinterpret_cast<uint64_t>(argument);
  stack[3] = reinterpret_cast<uint64_t>(entry);
  stack[6] = reinterpret_cast<uint64_t>(context_start);
  context.stack_pointer = reinterpret_cast<uint64_t>(stack);
}

void fpu_init(FpuState& state) {
  memset(&state, 0, sizeof(state));
  state.bytes[0] = 0x7f;  // control word: all exceptions masked, extended precision
  state.bytes[1] = 0x03;
  state.bytes[24] = 0x80;  // MXCSR: all exceptions masked
  state.bytes[25] = 0x1f;
}

void fpu_save(FpuState& state) {
  asm volatile("fxsave64 %0" : "=m"(state));
}
void fpu_restore(const FpuState& state) {
  asm volatile("fxrstor64 %0" ::"m"(state));
}
