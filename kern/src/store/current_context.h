// Who is allocating, or calling a probed function, on this CPU now.
#pragma once

#include "core/cpu.h"
#include "core/task_head.h"
#include "store/context.h"
#include "store/shared_tables.h"

// Frames of a user stack that are recorded.
inline constexpr size_t kUserStackDepth = 16;

// What is known of the caller of a system call or fault, in TaskHead::trace_call: 0 for what has
// not been in user mode; kTraceFromUser alone if its user stack has not been asked for; and beside
// that the number of the user stack, with kStackTruncated if there was more of it, or kCallerLost
// without a number if it could not be stored.
inline constexpr uint64_t kCallerLost = uint64_t{1} << 33;
constexpr uint32_t caller_stack(uint64_t caller) {
  return static_cast<uint32_t>(caller);
}

struct CurrentContext {
  uint32_t id;      // ContextTable; 0: it could not be stored
  uint64_t caller;  // not kTraceFromUser alone
};
// After trace_memory_prepare(), interrupts off.
CurrentContext trace_find_context();
// The same without the caller.
uint32_t trace_find_base();
// The caller of the current task, whose trace_call is kTraceFromUser alone, and whose context is
// valid; it is not one that recent_caller() knows. Remembers it. The same.
uint64_t trace_walk_caller(TaskHead& task, const Cpu& cpu);

// An interrupt is being handled, whatever the current task is.
bool trace_in_interrupt(const Cpu& cpu);

// Whether the current task, which there is, is who allocates, and remembers its context
// (TaskHead::trace_context). Its caller may not have been asked for; what is known of it is as
// valid as the context.
[[gnu::always_inline]] inline bool trace_context_remembered(const Cpu& cpu) {
  return (cpu.interrupt_depth == 0 || !trace_in_interrupt(cpu)) &&
         trace_contexts.remembers(cpu.current->trace_context);
}

// The process on whose behalf memory is allocated; 0 for a kernel task and in an interrupt.
// Interrupts off.
uint32_t trace_current_pid();

// --- For the sweeper (sweeper.h).

struct TraceNumbers {
  uint32_t stack, context;  // 0: none
};
// What a task remembers, which may run meanwhile. Any context.
TraceNumbers trace_remembered_by(const TaskHead& task);
// Marks what interrupts remember.
void trace_mark_interrupts(StoreMark& mark);
