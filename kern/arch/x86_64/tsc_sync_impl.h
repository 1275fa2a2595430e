// Comparing the time stamp counters of two CPUs.
//
// Nothing guarantees that the counters of all CPUs are equal: firmware may write a counter, and
// counters of different sockets may start at different times. So each CPU compares its counter with
// the boot CPU's when it starts. The CPU asks, the boot CPU answers with its counter, and the CPU
// knows two of its own values between which the answer was taken. Half their distance bounds the
// error of the comparison. A difference is found only if it exceeds the bound, so a host that stops
// a CPU for a while makes the comparison less exact, but never wrong.
#pragma once

#include <atomic>
#include <cstdint>

struct TscDifference {
  int64_t ticks;   // the asked counter minus the own one
  uint64_t doubt;  // `ticks` is wrong by at most this much
  bool is_certain() const {
    return (ticks < 0 ? 0 - static_cast<uint64_t>(ticks) : static_cast<uint64_t>(ticks)) > doubt;
  }
};

// Compares with the CPU that calls answer(). One CPU asks at a time.
class TscComparison {
 public:
  // `read` reads this CPU's counter in program order.
  explicit constexpr TscComparison(uint64_t (*read)()) : read_(read) {}
  // Asks several times, and returns the difference with the smallest doubt. Waits for the other
  // CPU.
  TscDifference ask();
  // Answers if another CPU has asked. The other CPU waits, so this is called in a loop.
  void answer();

 private:
  uint64_t (*const read_)();
  std::atomic<unsigned> asked_{0}, answered_{0};
  std::atomic<uint64_t> value_{0};
};
