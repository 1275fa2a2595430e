// A CPU's recent user stacks at entries into the kernel: the first record of a system call or fault
// compares the stack with one of these instead of walking, hashing and looking it up.
//
// Each CPU has a table of walked stacks, in sets of four. The instruction and stack pointers of the
// entry select the set; a new stack replaces the oldest of its set. An entry holds the registers at
// the entry into the kernel; the frame pointer and return address of each frame; and the number of
// the caller (TaskHead::trace_call). If registers and frames are equal, a walk would have the same
// result, also in another process: processes that run the same program share entries if their
// stacks lie at the same addresses. The comparison takes six instructions a frame; a load that
// faults counts as a difference.
//
// A stack is kept when it occurs for the second time, provided that it ends with a frame pointer of
// 0, as usual, or is truncated, and that its return addresses are below 4 GiB. Other stacks are
// walked each time.
//
// Only its CPU uses and fills a table, with interrupts off. Its pages are trace memory. They are
// taken as stacks come, while the pages of all CPUs are a small part of the limit, and are given
// back with the stack table, since they contain its numbers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "core/cpu.h"
#include "core/task_head.h"
#include "lib/units.h"

// The entry point of recent_callers.S for so many frames; that for 0 never matches.
extern "C" const void* const recent_caller_compare[17];

// recent_callers.S uses the offsets.
struct RecentCaller {
  static constexpr size_t kMaxFrames = 16;

  uint64_t rip;
  uint32_t vector;
  uint32_t stack;  // the kernel stack that it last occurred with; 0: none
  uint64_t rbp;
  uint64_t caller;
  const void* compare;
  uint64_t end;   // bits that must be 0 in the last frame pointer: all; none if it is truncated
  uint32_t pair;  // the number of the pair of both stacks
  // The frames, at the end of these arrays: frame pointers, except for the last, and return
  // addresses.
  std::array<uint64_t, kMaxFrames> next;
  std::array<uint32_t, kMaxFrames> return_address;
};
static_assert(sizeof(RecentCaller) == 248);

// Allows `cpus` CPUs to take pages, unless that is too much memory. No trace has begun.
void recent_callers_open(uint32_t cpus);
// Gives the pages back. No trace is left, no tracer lock held.
void recent_callers_close();
// Clears this CPU's table, and gives back a few of the pages that it has not used since the last
// time. Interrupts off, in the context of trace_memory_prepare(). Bound: some 2,000 instructions.
void recent_callers_forget();

// Finds the caller of the current task, which has been in user mode, among the recent ones. Returns
// its number, caches it in the task, and stores its entry in *entry. 0, with nothing changed, if it
// is not there. Interrupts off, any context but NMI.
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
// Keeps a stack that walk_user_stack() has just found, if possible. `cut`: the walk reached its
// `max`, RecentCaller::kMaxFrames + 1. Takes two pages at most. Interrupts off, any context but
// NMI, after trace_memory_prepare().
void keep_recent_caller(uint64_t caller, const uint64_t* program_counters,
                        const uint64_t* frame_pointers, size_t count, bool cut, const Cpu& cpu);
