// Hints: for each place from which a CPU has recorded lately, the stored stack that it found.
//
// A hint is a guess, which a comparison with the present stack confirms. The comparison takes less
// than to hash the stack, and saves the look-up. A hint names a stored stack, so it tells only
// what the code was, not in which task or where on the stack.
//
// A CPU has a page of hints for kernel stacks, and one for user stacks. A kernel stack's hint is
// indexed by its first two return addresses and the distance of its first frame from the end of the
// stack; a user stack's by the registers with which the program entered the kernel. Several user
// stacks often have the same registers, so their hints are in sets of four. Only this CPU uses the
// pages, with interrupts and probes off. Each sweep clears the hints (sweeper.h), so a hint names a
// stack that the stack table has.
#pragma once

#include <array>
#include <cstddef>

#include "arch/x86_64/trap.h"
#include "core/cpu.h"
#include "intern/stack_table.h"
#include "lib/units.h"

// Each hint is a stored stack of the page's kind, or StackTable::View::nothing().
using KernelHints = std::array<StackTable::View, 512>;
using UserHintSet = std::array<StackTable::View, 4>;  // the last one used is the first
using UserHints = std::array<UserHintSet, 128>;
static_assert(sizeof(KernelHints) == kPageSize && sizeof(UserHints) == kPageSize);
// Each CPU's hints. If a CPU could not get a page, its hints are never changed.
extern std::array<KernelHints*, kMaxCpus> kernel_hints;
extern std::array<UserHints*, kMaxCpus> user_hints;

inline KernelHints& these_kernel_hints() {
  return *kernel_hints[number_of(cpu_id_for_index())];
}
// This CPU's hints for a user stack.
[[gnu::always_inline]] inline UserHintSet& these_user_hints(const TrapFrame& entry) {
  UserHints& hints = *user_hints[number_of(cpu_id_for_index())];
  return hints[(entry.rip ^ entry.rsp >> 4) % hints.size()];
}
// Changes one of this CPU's hints, if it has the page.
void set_stack_hint(StackTable::View& hint, StackTable::View stack);
// Makes a stack the first of a set of this CPU, instead of the last, if it has the page.
void add_stack_hint(UserHintSet& set, StackTable::View stack);

// Takes two pages for each of `cpus` CPUs; a CPU without a page has no such hints. Call this before
// the first trace or probe session records anything, with no tracer lock held.
void stack_hints_open(uint32_t cpus);
// Gives the pages back. Call this after the last trace or probe session has ended, with no tracer
// lock held.
void stack_hints_close();
// Clears this CPU's hints. Interrupts and probes are off. Bound: about 2,100 instructions.
void stack_hints_clear();
