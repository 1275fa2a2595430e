// The numbers of kernel stacks.
#pragma once

#include "store/recent_stacks.h"

// What is recorded of a stack.
class RecordedStack {
 public:
  // As RecentStack::stack().
  explicit RecordedStack(uint64_t word) : word_(word) {}
  RecordedStack(uint32_t id, bool truncated)
      : word_(id | (truncated ? RecentStack::kTruncated : 0)) {}

  uint32_t id() const {
    return static_cast<uint32_t>(word_);
  }  // StackTable; 0: it could not be stored
  bool truncated() const { return word_ >= RecentStack::kTruncated; }  // there are more frames
  uint64_t word() const { return word_; }

 private:
  uint64_t word_;
};

// The stack that begins at a frame of the current stack. Interrupts off, any context but NMI,
// between trace_users_add() and trace_users_drop() and after trace_memory_prepare(). Cheap when it
// differs little from one that this CPU has recorded lately. Bound: three walks of the frames asked
// for, one chain of the stack table.
RecordedStack record_kernel_stack(uint64_t frame_pointer, StackScope scope, const Cpu& cpu);
