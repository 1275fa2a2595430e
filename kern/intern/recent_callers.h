// A CPU's recent user stacks at entries into the kernel. The first record of a system call or fault
// searches these stacks for the present user stack. A comparison is cheaper than walking the stack,
// hashing it and looking it up.
//
// Each CPU has a table of walked stacks, in sets of four. The instruction and stack pointers of the
// kernel entry select the set; a new stack replaces the oldest of its set. A table entry
// (RecentCaller) holds three things: registers at the kernel entry, the frame pointer and return
// address of each frame, and the caller. If registers and frames are equal, a walk would have the
// same result, even in another process. So processes that run the same program share table entries
// if their stacks lie at the same addresses. The comparison takes six instructions a frame; a load
// that faults counts as a difference.
//
// A stack is kept when it occurs for the second time and all of these conditions hold:
// - It has at least one frame.
// - It ends with a frame pointer of 0, as is usual, or it is truncated.
// - All its return addresses are below 4 GiB.
// Any other stack is walked each time.
//
// A table is used and filled only by its CPU, with interrupts off. The table's pages are trace
// memory. They are taken when stacks are added; the pages of all CPUs together are at most 1/16 of
// the limit of trace memory. The pages are given back when the stack table is emptied, because they
// contain numbers of stacks in the stack table.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "core/cpu.h"
#include "core/task_head.h"
#include "intern/ids.h"
#include "lib/units.h"

// [n] is the entry point of recent_callers.S that compares n + 1 frames.
extern "C" const void* const recent_caller_compare[16];

// recent_callers.S uses the offsets of the fields.
struct RecentCaller {
  static constexpr size_t kMaxFrames = 16;

  uint64_t rip;
  uint32_t vector;
  StackId stack;  // the kernel stack of this caller's last record
  uint64_t rbp;
  TraceCaller caller;
  const void* compare;  // an element of recent_caller_compare
  uint64_t end;         // bits that must be 0 in the last frame's frame pointer: all bits, or none
                        // if the stack is truncated
  StackId pair;         // pair of `stack` and this caller's user stack
  // The frames are in the last elements of these arrays. `next` is the address of the next frame,
  // and is unused for the last frame.
  std::array<uint64_t, kMaxFrames> next;
  std::array<uint32_t, kMaxFrames> return_address;
};
static_assert(sizeof(RecentCaller) == 248);

// Allows `cpus` CPUs to take pages: together at most 1/16 of the limit of trace memory. If 1/16
// of the limit is less than two pages for each CPU, no stacks are kept. Call this before the first
// trace or probe session records anything.
void recent_callers_open(uint32_t cpus);
// Gives the pages of all CPUs back. Call this after the last trace or probe session has ended, with
// no tracer lock held.
void recent_callers_close();
// Clears this CPU's table, and gives back a few of the pages that the table has not used since the
// last call. Interrupts and probes are off; no lock of a rank below kArenaTags is held. Bound:
// about 2,000 instructions.
void recent_callers_forget();

// Searches this CPU's table for the user stack with which the current task entered the kernel. The
// task must have been in user mode. If the table has the stack, stores the table entry in *entry,
// stores the entry's caller in the task, and returns the caller. Otherwise returns kNone and does
// not change the task. Interrupts off, any context but NMI.
[[gnu::always_inline]] inline TraceCaller recent_caller(RecentCaller** entry) {
  TraceCaller caller;
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
// Adds a stack that walk_user_stack() has just found to this CPU's table, if possible. `cut`: the
// walk ended at its limit of RecentCaller::kMaxFrames + 1 frames. Takes two pages at most.
// Interrupts off, any context but NMI, after trace_memory_prepare().
void keep_recent_caller(TraceCaller caller, const uint64_t* program_counters,
                        const uint64_t* frame_pointers, size_t count, bool cut, const Cpu& cpu);
