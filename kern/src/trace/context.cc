// Finds out who is allocating.
#include <atomic>

#include "arch/x86_64/trap.h"
#include "cpu.h"
#include "lib/string.h"
#include "trace.h"
#include "trace_memory.h"
#include "tracer.h"

namespace {

constexpr unsigned kVectors = 256;

constinit std::atomic<ContextProvider> provider{nullptr};
// Remembered numbers, as Task::trace_context is for tasks. CPUs that race here write what are valid numbers all the
// same.
constinit std::atomic<uint32_t> interrupt_contexts[kVectors];

// An exception inside the kernel (copying user memory) is the doing of what ran; an interrupt is not.
bool in_interrupt(const Cpu& cpu) {
  return cpu.interrupt_depth > 0 && cpu.interrupt_vector >= kVectorIrqBase;
}

uint32_t interrupt_context(uint8_t vector) {
  const char* name = interrupt_name(vector);
  const uint32_t remembered = interrupt_contexts[vector].load(std::memory_order_relaxed);
  // A vector may have been registered afresh, under another name.
  if (trace_contexts.valid(remembered) && strcmp(trace_contexts.get(remembered)->name, name) == 0) return remembered;
  const uint32_t id = trace_contexts.intern(ContextKind::kInterrupt, 0, name);
  interrupt_contexts[vector].store(id, std::memory_order_relaxed);
  return id;
}

}  // namespace

uint32_t trace_context_make(ContextKind kind, uint32_t pid, std::string_view name) {
  trace_memory_prepare();
  return trace_contexts.intern(kind, pid, name);
}

bool trace_context_valid(uint32_t id) {
  return trace_contexts.valid(id);
}

void trace_register_context_provider(ContextProvider function) {
  provider.store(function, std::memory_order_release);
}

uint32_t trace_current_context() {
  const Cpu& cpu = this_cpu();
  if (in_interrupt(cpu)) return interrupt_context(cpu.interrupt_vector);
  if (const ContextProvider current = provider.load(std::memory_order_acquire)) return current();
  return trace_contexts.intern(ContextKind::kKernelTask, 0, "boot");
}

uint32_t trace_current_pid() {
  const Task* task = current_task();
  return task && !in_interrupt(this_cpu()) ? task->pid : 0;
}
