// Finds out who is allocating.
//
// A task remembers two numbers: its context, which holds until exec, and the user stack of the
// system call or fault that it is in, which holds until it returns to user mode (trap.cc stores
// kTraceFromUser then, and does no more for the tracer). So the user stack is asked for once for
// each system call in which something is recorded; mostly it is one that the CPU has met before
// (recent_callers.h).
//
// Numbers from before the tables were emptied: of a context they are recognised
// (ContextTable::remember). A user stack is asked for when there is a context, and forgotten when
// there is another, so what is known of the caller is as valid as the context.
#include "store/current_context.h"

#include <algorithm>
#include <atomic>
#include <iterator>

#include "arch/x86_64/frames.h"
#include "arch/x86_64/trap.h"
#include "core/cpu.h"
#include "lib/string.h"
#include "store/recent_callers.h"
#include "store/trace_memory.h"

namespace {

constexpr unsigned kVectors = 256;

constinit std::atomic<ProgramProvider> program_provider{nullptr};
// Remembered numbers, as those of tasks. CPUs that race here write what are valid numbers all the
// same.
constinit std::atomic<uint64_t> interrupt_contexts[kVectors];

uint32_t interrupt_context(uint8_t vector) {
  const char* name = interrupt_name(vector);
  const uint32_t known =
      trace_contexts.recall(interrupt_contexts[vector].load(std::memory_order_relaxed));
  // A vector may have been registered afresh, under another name.
  if (known != 0 && strcmp(trace_contexts.get(known)->program->name, name) == 0) return known;
  const uint32_t id = trace_contexts.intern(ContextKind::kInterrupt, 0, name);
  interrupt_contexts[vector].store(trace_contexts.remember(id), std::memory_order_relaxed);
  return id;
}

uint32_t context_of(TaskHead& task) {
  if (const uint32_t context = trace_contexts.recall(task.trace_context)) return context;
  task.trace_call &= kTraceFromUser;
  const ProgramProvider provider = program_provider.load(std::memory_order_acquire);
  const TraceProgram program = provider && task.process ? provider(task) : TraceProgram();
  const ContextKind kind = task.pid ? ContextKind::kProcess : ContextKind::kKernelTask;
  const uint32_t context =
      trace_contexts.intern(kind, task.pid, task.name, program, task.thread_in_context);
  task.trace_context = trace_contexts.remember(context);
  return context;
}

}  // namespace

void trace_register_program_provider(ProgramProvider provider) {
  program_provider.store(provider, std::memory_order_release);
}

// An exception inside the kernel (copying user memory) is the doing of what ran; an interrupt is
// not.
bool trace_in_interrupt(const Cpu& cpu) {
  return cpu.interrupt_depth > 0 && cpu.interrupt_vector >= kVectorIrqBase;
}

void trace_program_changed(TaskHead& task) {
  task.trace_context = 0;
  task.trace_call = 0;
}

uint64_t trace_walk_caller(TaskHead& task, const Cpu& cpu) {
  if (!task.process) return task.trace_call = 0;
  uint64_t frames[kUserStackDepth + 1], frame_pointers[kUserStackDepth + 1];
  const size_t count = walk_user_stack(frames, frame_pointers, std::size(frames));
  const bool cut = count > kUserStackDepth;
  bool known;
  const uint32_t stack =
      trace_stacks.intern(StackKind::kUser, frames, std::min(count, kUserStackDepth), &known);
  if (stack == 0) return task.trace_call = kTraceFromUser | kCallerLost;
  const uint64_t caller = kTraceFromUser | (cut ? kStackTruncated : 0) | stack;
  // The first time it is left alone: most places that allocate once do not again.
  if (known) keep_recent_caller(caller, frames, frame_pointers, count, cut, cpu);
  return task.trace_call = caller;
}

CurrentContext trace_find_context() {
  const Cpu& cpu = this_cpu();
  if (trace_in_interrupt(cpu)) return {interrupt_context(cpu.interrupt_vector), 0};
  TaskHead* const task = cpu.current;
  if (!task) return {trace_contexts.intern(ContextKind::kKernelTask, 0, "boot"), 0};
  const uint32_t context = context_of(*task);
  if (context == 0) return {0, 0};
  if (task->trace_call != kTraceFromUser) return {context, task->trace_call};
  RecentCaller* met;
  const uint64_t recent = recent_caller(&met);
  return {context, recent != 0 ? recent : trace_walk_caller(*task, cpu)};
}

uint32_t trace_find_base() {
  const Cpu& cpu = this_cpu();
  if (trace_in_interrupt(cpu)) return interrupt_context(cpu.interrupt_vector);
  if (cpu.current) return context_of(*cpu.current);
  return trace_contexts.intern(ContextKind::kKernelTask, 0, "boot");
}

uint32_t trace_current_pid() {
  const TaskHead* task = current_task_head();
  return task && !trace_in_interrupt(this_cpu()) ? task->pid : 0;
}

// Whoever makes the context valid has forgotten before what it knew of the caller with another.
TraceNumbers trace_remembered_by(const TaskHead& task) {
  const uint32_t context =
      trace_contexts.recall(__atomic_load_n(&task.trace_context, __ATOMIC_ACQUIRE));
  if (context == 0) return {0, 0};
  return {caller_stack(__atomic_load_n(&task.trace_call, __ATOMIC_RELAXED)), context};
}

void trace_mark_interrupts(StoreMark& mark) {
  for (const auto& remembered : interrupt_contexts)
    mark.context(trace_contexts.recall(remembered.load(std::memory_order_relaxed)));
}
