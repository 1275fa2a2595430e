#include "probe/pairs_impl.h"

ProbePairs::Slot* ProbePairs::find(ProbeRunner runner) {
  for (Slot& slot : bucket_of(runner)) {
    // Acquire: the runner may have filled the slot on another CPU.
    if (slot.runner.load(std::memory_order_acquire) == runner.word) return &slot;
  }
  return nullptr;
}

bool ProbePairs::enter(ProbeRunner runner, const ProbeCall& call) {
  for (Slot& slot : bucket_of(runner)) {
    uint64_t free = 0;
    if (slot.runner.load(std::memory_order_relaxed) != 0 ||
        !slot.runner.compare_exchange_strong(free, runner.word, std::memory_order_acquire,
                                             std::memory_order_relaxed)) {
      continue;
    }
    slot.call = call;
    return true;
  }
  return false;
}
