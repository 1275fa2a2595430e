// Finds the task, process or interrupt that is allocating.
//
// A task caches two numbers. The number of its context is valid until exec. The number of the user
// stack of its present system call or fault is valid until the task returns to user mode; trap.cc
// then stores TraceCaller::kUnknown. So the user stack is looked up once for each system call that
// records anything. Usually the CPU has a hint which stored stack it is (stack_hints_impl.h).
//
// A cached number may be from before the tables were emptied. ContextTable::remembers() is false
// for such a context number. The cached user stack needs no such test: a task's user stack is
// looked up only after a valid context was found, and is forgotten together with the context. So
// the user stack is valid if the cached context is valid.
#include "intern/current_context.h"

#include <algorithm>
#include <atomic>
#include <iterator>
#include <span>
#include <utility>

#include "arch/x86_64/frames.h"
#include "arch/x86_64/trap.h"
#include "core/cpu.h"
#include "core/probe_guard.h"
#include "intern/stack_hints_impl.h"
#include "intern/trace_memory.h"
#include "lib/string.h"

namespace {

constexpr unsigned kVectors = 256;

constinit std::atomic<ProgramProvider> program_provider{nullptr};
// The cached context of each interrupt vector, from ContextTable::remember(). CPUs may race here:
// each writes a valid value.
constinit std::atomic<uint64_t> interrupt_contexts[kVectors];

ContextId interrupt_context(uint8_t vector) {
  const char* name = interrupt_name(vector);
  const ContextId known =
      trace_contexts.recall(interrupt_contexts[vector].load(std::memory_order_relaxed));
  // The vector may have been registered again under another name.
  if (known != ContextId::kNone && strcmp(trace_contexts.get(known)->program->name, name) == 0)
    return known;
  const ContextId id = trace_contexts.intern(ContextKind::kInterrupt, 0, name);
  interrupt_contexts[vector].store(trace_contexts.remember(id), std::memory_order_relaxed);
  return id;
}

ContextId context_of(TaskHead& task) {
  const ContextId known = trace_contexts.recall(task.trace_context);
  if (known != ContextId::kNone) return known;
  if (task.trace_call != TraceCaller::kNone) task.trace_call = TraceCaller::kUnknown;
  const ProgramProvider provider = program_provider.load(std::memory_order_acquire);
  const TraceProgram program = provider && task.process ? provider(task) : TraceProgram();
  const ContextKind kind = task.pid ? ContextKind::kProcess : ContextKind::kKernelTask;
  const ContextId context =
      trace_contexts.intern(kind, task.pid, task.name, program, task.thread_in_context);
  task.trace_context = trace_contexts.remember(context);
  return context;
}

}  // namespace

void trace_register_program_provider(ProgramProvider provider) {
  program_provider.store(provider, std::memory_order_release);
}

// An exception inside the kernel (as in copying user memory) counts as part of the interrupted
// code. An interrupt does not.
bool trace_in_interrupt(const Cpu& cpu) {
  return cpu.interrupt_depth > 0 && cpu.interrupt_vector >= kVectorIrqBase;
}

void trace_program_changed(TaskHead& task) {
  task.trace_context = 0;
  task.trace_call = TraceCaller::kNone;
}

namespace {

// Searches the other hints of the set and makes the caller's the first. If none is, walks the user
// stack and finds or adds it.
[[gnu::noinline]] TraceCaller learn_caller(const TrapFrame& entry, UserHintSet& set) {
  for (StackTable::View& hint : std::span(set).subspan(1)) {
    const TraceCaller caller = caller_if(entry, hint);
    if (caller == TraceCaller::kUnknown) continue;
    std::swap(hint, set.front());
    return caller;
  }
  if (trace_memory_low()) [[unlikely]]
    trace_memory_prepare();
  uint64_t frames[kUserStackDepth + 1];
  const size_t count = walk_user_stack(frames, std::size(frames));
  const StackTable::View stack = trace_stacks.view(
      trace_stacks.intern(StackKind::kUser, frames, std::min(count, kUserStackDepth)));
  if (!stack) return TraceCaller::kLost;
  if (stack_hints_change()) {
    std::copy_backward(set.begin(), set.end() - 1, set.end());
    set.front() = stack;
  }
  return caller_with(stack.id(), count > kUserStackDepth);
}

}  // namespace

NOT_PROBED void trace_find_caller(TaskHead& task) {
  TraceCaller caller = TraceCaller::kNone;
  if (task.process) [[likely]] {
    const TrapFrame& entry = entered_from_user();
    UserHintSet& set = these_user_hints(entry);
    caller = caller_if(entry, set.front());
    if (caller == TraceCaller::kUnknown) [[unlikely]]
      caller = learn_caller(entry, set);
  }
  task.trace_call = caller;
}

CurrentContext trace_find_context() {
  const Cpu& cpu = this_cpu();
  if (trace_in_interrupt(cpu)) return {interrupt_context(cpu.interrupt_vector), TraceCaller::kNone};
  TaskHead* const task = cpu.current;
  if (!task)
    return {trace_contexts.intern(ContextKind::kKernelTask, 0, "boot"), TraceCaller::kNone};
  const ContextId context = context_of(*task);
  if (context == ContextId::kNone) return {context, TraceCaller::kNone};
  if (task->trace_call == TraceCaller::kUnknown) trace_find_caller(*task);
  return {context, task->trace_call};
}

ContextId trace_find_base() {
  const Cpu& cpu = this_cpu();
  if (trace_in_interrupt(cpu)) return interrupt_context(cpu.interrupt_vector);
  if (cpu.current) return context_of(*cpu.current);
  return trace_contexts.intern(ContextKind::kKernelTask, 0, "boot");
}

uint32_t trace_current_pid() {
  const TaskHead* task = current_task_head();
  return task && !trace_in_interrupt(this_cpu()) ? task->pid : 0;
}

// context_of() clears the cached caller before it stores another context. So a caller that is read
// after a valid context is valid, too.
TraceNumbers trace_remembered_by(const TaskHead& task) {
  const ContextId context =
      trace_contexts.recall(__atomic_load_n(&task.trace_context, __ATOMIC_ACQUIRE));
  if (context == ContextId::kNone) return {StackId::kNone, context};
  TraceCaller caller;
  __atomic_load(&task.trace_call, &caller, __ATOMIC_RELAXED);
  return {stack_in(caller), context};
}

void trace_retain_interrupts(Retained& retained) {
  for (const auto& remembered : interrupt_contexts)
    retained.context(trace_contexts.recall(remembered.load(std::memory_order_relaxed)));
}
