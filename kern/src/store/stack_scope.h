// The frames of a kernel stack that are recorded.
#pragma once

#include <cstdint>

class StackScope {
 public:
  // kmem_cache_alloc, called by kmalloc, called by an ObjectCache, and some spare ones.
  static constexpr uint32_t kAllocatorFrames = 6;
  // word() is below it.
  static constexpr uint64_t kLimit = 256;

  constexpr StackScope() = default;
  // The innermost `depth` frames (less than 128).
  static constexpr StackScope innermost(uint32_t depth) { return StackScope(depth); }
  // The same after skipping the allocator's frames at the start of the stack.
  static constexpr StackScope callers(uint32_t depth) { return StackScope(depth | kCallers); }

  constexpr uint32_t depth() const { return word_ % kCallers; }
  constexpr bool skips_allocator() const { return word_ >= kCallers; }
  // The frames to walk: one more than are recorded, to see whether the stack is truncated.
  constexpr uint32_t walk() const {
    return depth() + 1 + (skips_allocator() ? kAllocatorFrames : 0);
  }
  constexpr uint32_t word() const { return word_; }

 private:
  static constexpr uint32_t kCallers = 128;
  constexpr explicit StackScope(uint32_t word) : word_(word) {}
  uint32_t word_ = 0;
};
