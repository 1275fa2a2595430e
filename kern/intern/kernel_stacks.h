// Finds the numbers of kernel stacks, and of pairs of a kernel stack and a user stack.
#pragma once

#include "intern/current_context.h"
#include "intern/recent_stacks_impl.h"

// The number of a recorded stack or pair, with flags.
class RecordedStack {
 public:
  // The word has the number; kStackTruncated if the stack has more frames than are recorded; and
  // kUserStackLost if the user stack, or the pair, could not be stored.
  static constexpr uint64_t kUserStackLost =
      static_cast<uint64_t>(TraceCaller::kLost) ^ static_cast<uint64_t>(TraceCaller::kUnknown);
  explicit RecordedStack(uint64_t word) : word_(word) {}
  explicit RecordedStack(TraceCaller caller)
      : word_(static_cast<uint64_t>(caller) & ~static_cast<uint64_t>(TraceCaller::kUnknown)) {}
  RecordedStack(StackId id, bool truncated)
      : word_(number_of(id) | (truncated ? kStackTruncated : 0)) {}

  // kNone: the stack could not be stored.
  StackId id() const { return stack_in(word_); }
  // True if the stack has more frames than are recorded.
  bool truncated() const { return (word_ & kStackTruncated) != 0; }
  bool user_stack_lost() const { return (word_ & kUserStackLost) != 0; }
  uint64_t word() const { return word_; }

 private:
  uint64_t word_;
};

// Records the kernel stack from the frame at `frame_pointer` on; this frame is on the current
// stack. Interrupts off, any context but NMI. Call after trace_memory_prepare(), between
// trace_users_add() and trace_users_drop(). Cheap if the stack differs little from a recent stack
// of this CPU. Bound: three walks of the recorded frames and one chain of the stack table.
RecordedStack record_kernel_stack(uint64_t frame_pointer, StackScope scope, const Cpu& cpu);
// Records the kernel stack as record_kernel_stack() does, together with the user stack of `caller`
// (CurrentContext::caller). Returns the number of the pair, or of the kernel stack if there is no
// user stack. Context as for record_kernel_stack(). Bound: one chain more than
// record_kernel_stack().
RecordedStack record_stack(uint64_t frame_pointer, StackScope scope, const Cpu& cpu,
                           TraceCaller caller);
