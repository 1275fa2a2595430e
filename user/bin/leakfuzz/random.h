// Pseudo-random numbers (xorshift64*, Vigna 2016). Equal seeds give equal numbers in each run.
#pragma once

#include <cstddef>
#include <cstdint>

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15 + 1) {
    for (int i = 0; i < 4; i++) word();
  }
  uint64_t word() {
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    return state_ * 0x2545f4914f6cdd1d;
  }
  // Returns a random number below `n`. `n` must not be 0.
  size_t below(size_t n) { return static_cast<size_t>((word() >> 33) % n); }
  bool one_in(size_t n) { return below(n) == 0; }
  template <typename List>
  const auto& of(const List& list) {
    return list[below(std::size(list))];
  }

 private:
  uint64_t state_;
};
