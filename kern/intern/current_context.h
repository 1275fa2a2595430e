// The task, process or interrupt that is allocating, or calling a probed function, on this CPU now.
#pragma once

#include "core/cpu.h"
#include "core/task_head.h"
#include "intern/context.h"
#include "intern/shared_tables.h"

// The largest number of frames that are recorded of a user stack.
inline constexpr size_t kUserStackDepth = 16;

struct CurrentContext {
  ContextId id;        // kNone: the context could not be stored
  TraceCaller caller;  // never kUnknown
};
// Finds the present context and caller. Call after trace_memory_prepare(), with interrupts off.
CurrentContext trace_find_context();
// Finds only the present context, not the caller. Call after trace_memory_prepare(), with
// interrupts off.
ContextId trace_find_base();
// Walks the user stack of the current system call or fault, caches the caller in the task and
// returns it. Call this only if the task's trace_call is kUnknown, its context is valid and
// recent_caller() has not found the caller; after trace_memory_prepare(), with interrupts off.
TraceCaller trace_walk_caller(TaskHead& task, const Cpu& cpu);

// True while the CPU handles an interrupt, with or without a current task.
bool trace_in_interrupt(const Cpu& cpu);

// True if the CPU is not in an interrupt and the current task's cached context
// (TaskHead::trace_context) is valid. The CPU must have a current task. If the task's caller has
// been looked up already, the cached caller is valid, too.
[[gnu::always_inline]] inline bool trace_context_remembered(const Cpu& cpu) {
  return (cpu.interrupt_depth == 0 || !trace_in_interrupt(cpu)) &&
         trace_contexts.remembers(cpu.current->trace_context);
}

// Returns the pid of the allocating process; 0 for a kernel task and in an interrupt. Interrupts
// off.
uint32_t trace_current_pid();

// --- For the sweeper (sweeper.h).

struct TraceNumbers {
  StackId stack;
  ContextId context;
};
// Gets the numbers of the user stack and of the context that a task caches. May be called anywhere,
// without a lock, even while the task runs.
TraceNumbers trace_remembered_by(const TaskHead& task);
// Marks the contexts that are cached for interrupts.
void trace_mark_interrupts(StoreMark& mark);
