// An array in the tracer's arena. The index of live objects (index.h) does not include this arena.
// The contents of a new array are undefined.
#pragma once

#include <cstdint>
#include <span>

#include "intern/trace_memory.h"

namespace reach {

template <typename T>
class Block {
 public:
  // May sleep. If there is no memory, operator bool is false.
  explicit Block(uint64_t count)
      : count_(count), memory_(static_cast<T*>(trace_copy_alloc(count * sizeof(T)))) {}
  ~Block() {
    if (memory_) trace_copy_free(memory_, count_ * sizeof(T));
  }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  explicit operator bool() const { return memory_ != nullptr; }
  std::span<T> span() const { return {memory_, count_}; }

 private:
  const uint64_t count_;
  T* const memory_;
};

}  // namespace reach
