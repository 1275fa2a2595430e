// The numbers of kernel stacks, and of their pairs with user stacks.
#pragma once

#include "store/current_context.h"
#include "store/recent_stacks.h"

// The number of a recorded stack or pair, with flags.
class RecordedStack {
 public:
  // As RecentStack::stack(); with kUserStackLost if the user stack, or the pair, could not be
  // stored.
  static constexpr uint64_t kUserStackLost = kCallerLost;
  explicit RecordedStack(uint64_t word) : word_(word) {}
  RecordedStack(uint32_t id, bool truncated) : word_(id | (truncated ? kStackTruncated : 0)) {}

  // A number of StackTable; 0: it could not be stored.
  uint32_t id() const { return static_cast<uint32_t>(word_); }
  bool truncated() const { return (word_ & kStackTruncated) != 0; }  // there are more frames
  bool user_stack_lost() const { return (word_ & kUserStackLost) != 0; }
  uint64_t word() const { return word_; }

 private:
  uint64_t word_;
};

// Records the stack that begins at a frame of the current stack. Interrupts off, any context but
// NMI, between trace_users_add() and trace_users_drop() and after trace_memory_prepare(). Cheap if
// the stack differs little from a recent one of this CPU. Bound: three walks of the recorded
// frames, one chain of the stack table.
RecordedStack record_kernel_stack(uint64_t frame_pointer, StackScope scope, const Cpu& cpu);
// The same together with the user stack of a caller (CurrentContext): the number of the pair, or
// of the kernel stack if there is no user stack. Bound: one chain more.
RecordedStack record_stack(uint64_t frame_pointer, StackScope scope, const Cpu& cpu,
                           uint64_t caller);
