#include "probe/probe_pairs.h"

ProbePairs::Slot* ProbePairs::find(ProbeRunner runner) {
  for (Slot& slot : bucket_of(runner)) {
    // Acquire: the runner may have filled it on another CPU.
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

bool ProbePairs::leave(ProbeRunner runner, uint64_t stack_pointer, uint32_t tag, ProbeCall* call) {
  Slot* const slot = find(runner);
  if (!slot || stack_pointer < slot->call.stack_pointer) return false;
  const bool same = stack_pointer == slot->call.stack_pointer && tag == slot->call.tag;
  *call = slot->call;
  if (same) {
    release(*slot);
  } else {
    abandon(*slot);
  }
  return same;
}

void ProbePairs::forget(ProbeRunner runner) {
  if (Slot* const slot = find(runner)) abandon(*slot);
}

void ProbePairs::forget_all() {
  for (Bucket& bucket : buckets_) {
    for (Slot& slot : bucket) {
      if (slot.runner.load(std::memory_order_acquire) != 0) abandon(slot);
    }
  }
}
