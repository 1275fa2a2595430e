// A CPU's recent stacks of programs in a session of probes, with their numbers: the same few places
// allocate again and again, and comparing a stack costs a tenth of a look-up. The sweeper
// (sweeper.h) clears them in each sweep.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

class RecentUserStacks {
 public:
  // The number of a stack, innermost frame first: the cached one, otherwise the result of make(),
  // which is cached if it is not 0. On its CPU, with interrupts off.
  template <typename Make>
  uint32_t number(const uint64_t* frames, size_t count, Make make) {
    if (count < 2 || count > kFrames) return make();
    Stack& stack = stacks_[(frames[0] ^ frames[1]) * 0x9e3779b97f4a7c15 >> (64 - kBits)];
    if (stack.count == count && std::equal(frames, frames + count, stack.frames))
      return stack.number;
    const uint32_t number = make();
    if (number == 0) return 0;
    stack.number = number;
    stack.count = static_cast<uint32_t>(count);
    std::copy_n(frames, count, stack.frames);
    return number;
  }

  // On its CPU, too.
  void forget() {
    for (Stack& stack : stacks_) stack.count = 0;
  }

 private:
  static constexpr unsigned kBits = 4;
  static constexpr size_t kFrames = 14;
  struct Stack {
    uint32_t number = 0;
    uint32_t count = 0;  // 0: there is none
    uint64_t frames[kFrames] = {};
  };
  Stack stacks_[1 << kBits];
};
