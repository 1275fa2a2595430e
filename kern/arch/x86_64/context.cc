// Contexts of kernel tasks.
#include "arch/x86_64/context.h"

#include "lib/string.h"

extern "C" void context_start();

void context_init(Context& context, uint64_t stack_top, void (*entry)(void*), void* argument) {
  // context_switch pops r15 r14 r13 r12 rbx rbp and the return address. rbp is 0, which ends a walk
  // by frame pointers.
  auto* stack = reinterpret_cast<uint64_t*>(stack_top) - 10;
  memset(stack, 0, 10 * sizeof(uint64_t));
  stack[2] = reinterpret_cast<uint64_t>(argument);
  stack[3] = reinterpret_cast<uint64_t>(entry);
  stack[6] = reinterpret_cast<uint64_t>(context_start);
  context.stack_pointer = reinterpret_cast<uint64_t>(stack);
}
