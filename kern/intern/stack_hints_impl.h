// Hints: for each place from which a CPU has recorded lately, the stored stack that it found.
//
// A hint is a guess, which a comparison with the present stack confirms. The comparison takes less
// than to hash the stack, and saves the look-up. A hint names a stored stack, so it tells only
// what the code was, not in which task or where on the stack.
//
// A kernel stack's hint is indexed by its first two return addresses, the distance of its first
// frame from the end of the stack, and the most frames that are recorded; a user stack's by the
// registers with which the program entered the kernel. Several user stacks often have the same
// registers, so their hints are in sets of four. Only the CPU itself uses its hints, with
// interrupts and probes off. Each sweep clears them (sweeper.h), so a hint names a stack that the
// stack table has.
#pragma once

#include <array>
#include <cstddef>

#include "arch/x86_64/trap.h"
#include "core/cpu.h"
#include "intern/stack_table.h"

using UserHintSet = std::array<StackTable::View, 4>;  // the last one used is the first
// Each hint is a stored stack, or StackTable::View::nothing().
struct StackHints {
  std::array<StackTable::View, 1024> kernel;
  std::array<UserHintSet, 128> user;
};
// Each CPU's hints. A CPU that has no memory for hints has those that are never changed.
extern std::array<StackHints*, kMaxCpus> stack_hints;
extern const StackHints no_stack_hints;

inline StackHints& these_stack_hints() {
  return *stack_hints[number_of(cpu_id_for_index())];
}
// This CPU's hints for a user stack.
[[gnu::always_inline]] inline UserHintSet& these_user_hints(const TrapFrame& entry) {
  StackHints& hints = these_stack_hints();
  return hints.user[(entry.rip ^ entry.rsp >> 4) % hints.user.size()];
}
// True if this CPU's hints may be changed. Before the CPU has its first task they are not, because
// a hook that finds one uses the current task.
inline bool stack_hints_change() {
  return &these_stack_hints() != &no_stack_hints && current_task_head();
}

// Takes memory for the hints of each of `cpus` CPUs, if there is any. Call this before the first
// trace or probe session records anything, with no tracer lock held.
void stack_hints_open(uint32_t cpus);
// Gives the memory back. Call this after the last trace or probe session has ended, with no tracer
// lock held.
void stack_hints_close();
// Clears this CPU's hints. Interrupts and probes are off. Bound: about 1,600 instructions.
void stack_hints_clear();
