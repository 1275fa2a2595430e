// Finds out who is allocating.
//
// A task remembers two numbers: what it is, which holds until exec, and the context of the system
// call or fault that it is in, with the user stack, which holds until it returns to user mode
// (trap.cc stores kTraceFromUser then, and does no more for the tracer). So the user stack is
// walked once for each system call in which something is recorded. A number from before the table
// was emptied is recognised as such.
#include "store/current_context.h"

#include <algorithm>
#include <atomic>
#include <iterator>

#include "arch/x86_64/frames.h"
#include "arch/x86_64/trap.h"
#include "core/cpu.h"
#include "lib/string.h"
#include "store/trace_memory.h"

namespace {

constexpr unsigned kVectors = 256;

constinit std::atomic<ProgramProvider> program_provider{nullptr};
// Remembered numbers, as those of tasks. CPUs that race here write what are valid numbers all the
// same.
constinit std::atomic<uint32_t> interrupt_contexts[kVectors];

uint32_t interrupt_context(uint8_t vector) {
  const char* name = interrupt_name(vector);
  const uint32_t remembered = interrupt_contexts[vector].load(std::memory_order_relaxed);
  // A vector may have been registered afresh, under another name.
  if (trace_contexts.valid(remembered) &&
      strcmp(trace_contexts.get(remembered)->base->name, name) == 0) {
    return remembered;
  }
  const uint32_t id = trace_contexts.intern(ContextKind::kInterrupt, 0, name);
  interrupt_contexts[vector].store(id, std::memory_order_relaxed);
  return id;
}

uint32_t base_of(TaskHead& task) {
  if (trace_contexts.valid(task.trace_base)) return task.trace_base;
  const ProgramProvider provider = program_provider.load(std::memory_order_acquire);
  const TraceProgram program = provider && task.process ? provider(task) : TraceProgram();
  const ContextKind kind = task.pid ? ContextKind::kProcess : ContextKind::kKernelTask;
  return task.trace_base = trace_contexts.intern(kind, task.pid, task.name, program);
}

// `base` with the user stack of the task, which is the current one; without it if either cannot be
// stored.
CurrentContext add_user_stack(uint32_t base) {
  uint64_t frames[kUserStackDepth + 1];
  const size_t count = walk_user_stack(frames, std::size(frames));
  const uint32_t stack =
      trace_stacks.intern(StackKind::kUser, frames, std::min(count, kUserStackDepth));
  const uint32_t with_stack = stack == 0 ? 0 : trace_contexts.with_user_stack(base, stack);
  if (with_stack == 0) return {.id = base, .user_stack = UserStack::kLost};
  return {.id = with_stack,
          .user_stack = count > kUserStackDepth ? UserStack::kCut : UserStack::kWhole};
}

CurrentContext context_of_call(TaskHead& task) {
  const uint32_t base = base_of(task);
  if (base == 0) return {.id = 0};
  const uint64_t from_user = task.trace_call & kTraceFromUser;
  const CurrentContext context =
      from_user && task.process ? add_user_stack(base) : CurrentContext{.id = base};
  uint64_t remembered = context.id;
  if (context.user_stack == UserStack::kLost) remembered = kUserStackLost;
  if (context.user_stack == UserStack::kCut) {
    task.trace_cut = context.id;
    remembered = kUserStackCut;
  }
  task.trace_call = from_user | remembered;
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
  task.trace_base = 0;
  task.trace_call = 0;
}

CurrentContext trace_find_context() {
  const Cpu& cpu = this_cpu();
  if (trace_in_interrupt(cpu)) return {.id = interrupt_context(cpu.interrupt_vector)};
  TaskHead* const task = cpu.current;
  if (!task) return {.id = trace_contexts.intern(ContextKind::kKernelTask, 0, "boot")};
  const uint64_t remembered = task->trace_call;
  const auto id = static_cast<uint32_t>(remembered);
  if (trace_contexts.valid(id)) return {.id = id};
  if ((remembered & kUserStackLost) != 0 && trace_contexts.valid(task->trace_base)) {
    return {.id = task->trace_base, .user_stack = UserStack::kLost};
  }
  if ((remembered & kUserStackCut) != 0 && trace_contexts.valid(task->trace_cut)) {
    return {.id = task->trace_cut, .user_stack = UserStack::kCut};
  }
  return context_of_call(*task);
}

uint32_t trace_find_base() {
  const Cpu& cpu = this_cpu();
  if (trace_in_interrupt(cpu)) return interrupt_context(cpu.interrupt_vector);
  if (cpu.current) return base_of(*cpu.current);
  return trace_contexts.intern(ContextKind::kKernelTask, 0, "boot");
}

uint32_t trace_current_pid() {
  const TaskHead* task = current_task_head();
  return task && !trace_in_interrupt(this_cpu()) ? task->pid : 0;
}
