// What the tracer's parts share, for src/trace/ alone. The theory is in trace.cc.
#pragma once

#include "core/cpu.h"
#include "sched/task.h"
#include "slab.h"
#include "store/context_table.h"
#include "store/stack_table.h"
#include "trace/command.h"
#include "trace/trace.h"
#include "trace/trace_table.h"

extern StackTable trace_stacks;
extern ContextTable trace_contexts;
// Serialises start, stop, reset, mark and the opening of dumps.
extern Mutex trace_control;

// Tables and open dumps, which hold numbers of stacks and contexts. The first makes the shared
// tables ready, the last empties them. ENOMEM.
Result<void> trace_users_add() REQUIRES(trace_control);
void trace_users_drop() REQUIRES(trace_control);

// Where a table is kept. What slab.h calls a trace_table is ours.
inline TraceTable** trace_slot_of(TraceSource source) {
  return reinterpret_cast<TraceTable**>(source.trace_slot());
}
// The table; nullptr while the trace is off.
inline TraceTable* trace_table_of(TraceSource source) {
  return __atomic_load_n(trace_slot_of(source), __ATOMIC_ACQUIRE);
}
TraceState trace_state_of(TraceSource source) REQUIRES(trace_control);
// Objects that are live and have no record; exact when it is quiet.
uint64_t trace_untracked(TraceSource source, const TraceCounters& counters);

// Frames of a user stack that are recorded.
inline constexpr size_t kUserStackDepth = 16;

// Tables that are in the slot of `source`, for reports. Before it is put there, and after it was
// taken away.
void trace_started_add(TraceTable* table, TraceSource source) REQUIRES(trace_control);
void trace_started_remove(TraceTable* table) REQUIRES(trace_control);
// Once: a panic shows the top of what is traced.
void trace_report_init();
// Reports go to `sink`, line by line, instead of the log, and none is left out for having come too
// soon; nullptr: to the log again. For tests.
void trace_report_to(void (*sink)(const char* text));

// Who is allocating. After trace_memory_prepare(), interrupts off.
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
CurrentContext trace_find_context();
// The same without a user stack: the task, the process or the interrupt; 0 if it cannot be stored.
uint32_t trace_find_base();
// In Task::trace_call, beside kTraceFromUser: instead of a number, which each record asks for then
// and is counted, that the user stack could not be stored; that there was more of it, and the
// number is in Task::trace_cut.
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

// Before the first sampled trace of all is started.
void trace_seed_samplers() REQUIRES(trace_control);

// Runs what trace_register_settle was given, and waits until no live count changes. ETIMEDOUT. May
// sleep.
Result<void> trace_settle();
