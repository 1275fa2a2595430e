// User stacks from which programs have come into the kernel lately on a CPU: the first record of a
// system call or fault compares instead of walking, hashing and looking up.
//
// Each CPU has a table of stacks that it has walked, in sets of four by the place of the call and
// how deep the stack was there, of which the oldest goes when another one comes. An entry holds the
// registers with which the kernel was entered; of each frame, where it leads and the return
// address; and what is known of the caller (TaskHead::trace_call). If registers and frames are
// found again, a walk would find what it found then, whatever process it is: those that run the
// same program find what the first has left, where their stacks lie alike. Six instructions a
// frame; a load that faults is a difference.
//
// A stack is kept when it comes for the second time, if it ends as those of programs do, with a
// frame pointer of 0, or is deeper than what is recorded, and returns to addresses below 4 GiB.
// What else there is, is walked each time.
//
// A table is used and filled by its CPU alone, with interrupts off. Its pages are trace memory,
// taken one after the other when stacks come, as long as all CPUs' would be a small part of the
// limit, and given back with the stack table, whose numbers stand in them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "core/cpu.h"
#include "core/task_head.h"
#include "lib/units.h"

// Where recent_callers.S compares so many frames; with none nothing matches.
extern "C" const void* const recent_caller_compare[17];

// Offsets are known to recent_callers.S.
struct RecentCaller {
  static constexpr size_t kMaxFrames = 16;

  uint64_t rip;
  uint32_t vector;
  uint32_t stack;  // the kernel stack that it was last met with; 0 if with none
  uint64_t rbp;
  uint64_t caller;
  const void* compare;
  uint64_t end;   // what must not be set where the last frame leads: all, or if it is cut, nothing
  uint32_t pair;  // the number of the pair of both stacks
  // Of each frame, the last ones of these: where it leads, but for the last, and its return
  // address.
  std::array<uint64_t, kMaxFrames> next;
  std::array<uint32_t, kMaxFrames> return_address;
};
static_assert(sizeof(RecentCaller) == 248);

// Allows `cpus` CPUs to take pages, if that is not too much. No trace is begun.
void recent_callers_open(uint32_t cpus);
// Gives the pages back. No trace is left, no tracer lock held.
void recent_callers_close();
// This CPU knows none any more; pages that it has not used since the last time are given back, a
// few of them. Interrupts off, in the context of trace_memory_prepare(). Bound: some 2,000
// instructions.
void recent_callers_forget();

// What is known of the caller of the current task, which has been in user mode: the task remembers
// it then, and *entry has it. 0, with nothing changed, if it has not come lately. Interrupts off,
// any context but NMI.
[[gnu::always_inline]] inline uint64_t recent_caller(RecentCaller** entry) {
  uint64_t caller;
  register RecentCaller* found asm("r9");
  asm volatile(
#ifdef STELE_HOST
      "leaq -128(%%rsp), %%rsp\n"  // the red zone
      "call find_recent_caller\n"
      "leaq 128(%%rsp), %%rsp"
#else
      "call find_recent_caller"
#endif
      : "=a"(caller), "=r"(found)
      :
      : "r10", "r11", "memory", "cc");
  *entry = found;
  return caller;
}
// Keeps what walk_user_stack() has just found, if that can be kept; `cut`: it came to its `max`,
// RecentCaller::kMaxFrames + 1. Takes two pages at most. The same, after trace_memory_prepare().
void keep_recent_caller(uint64_t caller, const uint64_t* program_counters,
                        const uint64_t* frame_pointers, size_t count, bool cut, const Cpu& cpu);
