// Caches the user stacks that one CPU has recently recorded for a probe session, with their numbers
// in the stack table. A few call sites allocate again and again, and comparing a cached stack costs
// a tenth of a look-up in the table. The sweeper (sweeper.h) clears this cache in each sweep.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "intern/ids.h"

class RecentUserStacks {
 public:
  // Returns the number of a stack: the cached one, otherwise the result of make(). `frames` begins
  // with the innermost frame. Caches the result of make() unless it is kNone, or the stack has
  // fewer than two or more than kFrames frames. Called on the CPU of this cache, with interrupts
  // off.
  template <typename Make>
  StackId number(const uint64_t* frames, size_t count, Make make) {
    if (count < 2 || count > kFrames) return make();
    Stack& stack = stacks_[(frames[0] ^ frames[1]) * 0x9e3779b97f4a7c15 >> (64 - kBits)];
    if (stack.count == count && std::equal(frames, frames + count, stack.frames))
      return stack.number;
    const StackId number = make();
    if (number == StackId::kNone) return number;
    stack.number = number;
    stack.count = static_cast<uint32_t>(count);
    std::copy_n(frames, count, stack.frames);
    return number;
  }

  // Empties the cache. Called on the CPU of this cache, with interrupts and probes off.
  void forget() {
    for (Stack& stack : stacks_) stack.count = 0;
  }

 private:
  static constexpr unsigned kBits = 4;
  static constexpr size_t kFrames = 14;
  struct Stack {
    StackId number = StackId::kNone;
    uint32_t count = 0;  // number of frames; 0: this element has no stack
    uint64_t frames[kFrames] = {};
  };
  Stack stacks_[1 << kBits];
};
