// Which frames of a kernel stack are recorded.
#pragma once

#include <cstdint>

class StackScope {
 public:
  // kmem_cache_alloc under kmalloc under an ObjectCache, and some to spare.
  static constexpr uint32_t kAllocatorFrames = 6;
  // word() is below it.
  static constexpr uint64_t kLimit = 256;

  constexpr StackScope() = default;
  // The innermost `depth` (less than 128) of all.
  static constexpr StackScope innermost(uint32_t depth) { return StackScope(depth); }
  // The same behind those of the allocator that the stack begins with.
  static constexpr StackScope callers(uint32_t depth) { return StackScope(depth | kCallers); }

  constexpr uint32_t depth() const { return word_ % kCallers; }
  constexpr bool skips_allocator() const { return word_ >= kCallers; }
  // Frames that are looked at: one more than is recorded tells whether something is cut off.
  constexpr uint32_t walk() const {
    return depth() + 1 + (skips_allocator() ? kAllocatorFrames : 0);
  }
  constexpr uint32_t word() const { return word_; }

 private:
  static constexpr uint32_t kCallers = 128;
  constexpr explicit StackScope(uint32_t word) : word_(word) {}
  uint32_t word_ = 0;
};
