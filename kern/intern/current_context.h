// The task, process or interrupt that is allocating, or calling a probed function, on this CPU now.
#pragma once

#include "arch/x86_64/frames.h"
#include "core/cpu.h"
#include "core/task_head.h"
#include "intern/context.h"
#include "intern/shared_tables.h"
#include "intern/stack_hints_impl.h"

// The largest number of frames that are recorded of a user stack.
inline constexpr size_t kUserStackDepth = kMaxStoredUserFrames;

struct CurrentContext {
  ContextId id;        // kNone: the context could not be stored
  TraceCaller caller;  // never kUnknown
};
// Finds the present context and caller. Call after trace_memory_prepare(), with interrupts off.
CurrentContext trace_find_context();
// Finds only the present context, not the caller. Call after trace_memory_prepare(), with
// interrupts off.
ContextId trace_find_base();
// Finds the user stack of the current system call or fault and caches the caller in the task. Call
// this only if the task's trace_call is kUnknown and its context is valid; with interrupts and
// probes off, and no lock of a rank below kArenaTags held.
void trace_find_caller(TaskHead& task);

// Returns the caller whose user stack is `stack` if that is the stack of the present system call or
// fault; otherwise kUnknown.
[[gnu::always_inline]] inline TraceCaller caller_if(const TrapFrame& entry,
                                                    StackTable::View stack) {
  const UserStackIs is = compare_user_stack(entry, stack.addresses(), stack.user_size());
  if (is == UserStackIs::kOther) [[unlikely]]
    return TraceCaller::kUnknown;
  return caller_with(stack.id(), is == UserStackIs::kDeeper);
}
// trace_find_caller() for the current task, if the CPU's first hint names the stack. Otherwise
// returns false, with nothing done. Calls nothing. Probes may be on: a hit, in a fault of the
// comparison, finds the same caller.
[[gnu::always_inline]] inline bool trace_recall_caller() {
  const TrapFrame& entry = entered_from_user();
  const TraceCaller caller = caller_if(entry, these_user_hints(entry).front());
  if (caller == TraceCaller::kUnknown) [[unlikely]]
    return false;
  current_task_head()->trace_call = caller;
  return true;
}

// True while the CPU handles an interrupt, with or without a current task.
bool trace_in_interrupt(const Cpu& cpu);

// True if the CPU is in no interrupt and the task, the current one, has a valid context. If it also
// has a caller, this is valid, too.
[[gnu::always_inline]] inline bool trace_context_remembered(const TaskHead& task) {
  return !in_interrupt() && trace_contexts.remembers(task.trace_context);
}
// The numbers of the task's context and of its caller in one word, the context lowest. Above them
// may be kStackTruncated.
inline uint64_t context_and_caller(const TaskHead& task) {
  return number_of(ContextTable::number_in(task.trace_context)) |
         static_cast<uint64_t>(task.trace_call);
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
// Retains the contexts that are cached for interrupts.
void trace_retain_interrupts(Retained& retained);
