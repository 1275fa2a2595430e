#include "arch/x86_64/tsc_sync_impl.h"

namespace {

constexpr unsigned kQuestions = 5;
constexpr uint64_t kGoodEnough = 1000;  // ticks of doubt, after which no further question is asked

void relax() {
  asm volatile("pause" ::: "memory");
}

}  // namespace

TscDifference TscComparison::ask() {
  TscDifference best{0, UINT64_MAX};
  for (unsigned i = 0; i < kQuestions && best.doubt > kGoodEnough; i++) {
    const uint64_t before = read_();
    const unsigned number = asked_.load(std::memory_order_relaxed) + 1;
    asked_.store(number, std::memory_order_release);
    while (answered_.load(std::memory_order_acquire) != number) relax();
    const uint64_t width = read_() - before, doubt = width / 2 + 1;
    if (doubt >= best.doubt) continue;
    best = {static_cast<int64_t>(value_.load(std::memory_order_relaxed) - (before + width / 2)),
            doubt};
  }
  return best;
}

void TscComparison::answer() {
  const unsigned number = asked_.load(std::memory_order_acquire);
  if (number == answered_.load(std::memory_order_relaxed)) return;
  value_.store(read_(), std::memory_order_relaxed);
  answered_.store(number, std::memory_order_release);
}
