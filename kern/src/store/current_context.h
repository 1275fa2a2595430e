// Who is allocating, or calling a probed function, on this CPU now.
#pragma once

#include "core/cpu.h"
#include "core/task_head.h"
#include "store/context.h"
#include "store/shared_tables.h"

// Frames of a user stack that are recorded.
inline constexpr size_t kUserStackDepth = 16;

enum class UserStack : uint32_t {
  kWhole,  // or there is none
  kLost,   // it could not be stored
  kCut,    // it is deeper than kUserStackDepth
};
// In one register.
struct CurrentContext {
  uint32_t id;
  UserStack user_stack = UserStack::kWhole;
};
// After trace_memory_prepare(), interrupts off.
CurrentContext trace_find_context();
// The same without a user stack: the task, the process or the interrupt; 0 if it cannot be stored.
uint32_t trace_find_base();

// In TaskHead::trace_call, beside kTraceFromUser: instead of a number, which each record asks for
// then and is counted, that the user stack could not be stored; that there was more of it, and the
// number is in TaskHead::trace_cut.
inline constexpr uint64_t kUserStackLost = uint64_t{1} << 32;
inline constexpr uint64_t kUserStackCut = uint64_t{1} << 33;
// What the current task remembers; false if that is not it, or not all, or no longer.
[[gnu::always_inline]] inline bool trace_remembered_context(const Cpu& cpu, uint32_t* context) {
  if (cpu.interrupt_depth != 0 || !cpu.current) [[unlikely]]
    return false;
  *context = static_cast<uint32_t>(cpu.current->trace_call);
  return trace_contexts.remembers(*context);
}

// An interrupt is being handled, whatever the current task is.
bool trace_in_interrupt(const Cpu& cpu);
// The process on whose behalf memory is allocated; 0 for a kernel task and in an interrupt.
// Interrupts off.
uint32_t trace_current_pid();
