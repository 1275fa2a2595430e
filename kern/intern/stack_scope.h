// Says which frames of a kernel stack are recorded.
#pragma once

#include <cstdint>

#include "slab_trace.h"

class StackScope {
 public:
  // All values of word(), the scope as a number, are below this limit.
  static constexpr uint64_t kLimit = 256;

  constexpr StackScope() = default;
  // Records the innermost `depth` frames; `depth` is less than 128.
  static constexpr StackScope innermost(uint32_t depth) { return StackScope(depth); }
  // Skips the allocator's frames at the start of the stack and records the next `depth` frames.
  static constexpr StackScope callers(uint32_t depth) { return StackScope(depth | kCallers); }

  constexpr uint32_t depth() const { return word_ % kCallers; }
  constexpr bool skips_allocator() const { return word_ >= kCallers; }
  // The number of frames to walk: the frames that may be skipped, the frames to record, and one
  // more. The last one shows that the recorded stack is truncated.
  constexpr uint32_t walk() const {
    return depth() + 1 + (skips_allocator() ? kAllocatorFrames : 0);
  }
  constexpr uint32_t word() const { return word_; }

 private:
  static constexpr uint32_t kCallers = 128;
  constexpr explicit StackScope(uint32_t word) : word_(word) {}
  uint32_t word_ = 0;
};
