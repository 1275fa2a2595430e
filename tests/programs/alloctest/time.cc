// The cost of a pair of malloc and free, in ticks of the time stamp counter. With QEMU's -icount a
// tick is an instruction.
#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "alloctest.h"

namespace {

uint64_t ticks() {
  uint32_t low, high;
  asm volatile("rdtsc" : "=a"(low), "=d"(high)::"memory");
  return uint64_t{high} << 32 | low;
}

}  // namespace

// Returns the ticks that one pair takes in the quickest of many rounds. An interrupt makes a round
// slower, so the quickest round had none.
__attribute__((noinline)) uint64_t time_of_pair() {
  constexpr int kRounds = 100, kPairs = 50;
  constexpr std::size_t kSize = 64;
  uint64_t quickest = UINT64_MAX;
  for (int round = 0; round < kRounds; round++) {
    const uint64_t start = ticks();
    for (int i = 0; i < kPairs; i++) {
      forgotten = std::malloc(kSize);
      std::free(forgotten);
    }
    quickest = std::min(quickest, ticks() - start);
  }
  return quickest / kPairs;
}
