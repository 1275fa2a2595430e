// Interrupt flag of this CPU.
#pragma once

#include <cstdint>

inline constexpr uint64_t kRflagsIf = 1 << 9;

inline bool interrupts_enabled() {
  uint64_t flags;
  asm volatile("pushfq; popq %0" : "=r"(flags)::"memory");
  return flags & kRflagsIf;
}
inline void interrupts_disable() {
  asm volatile("cli" ::: "memory");
}
inline void interrupts_enable() {
  asm volatile("sti" ::: "memory");
}

// Turns interrupts off for the life of a scope, and back to what they were.
class InterruptsOff {
 public:
  InterruptsOff() : were_on_(interrupts_enabled()) { interrupts_disable(); }
  ~InterruptsOff() {
    if (were_on_) interrupts_enable();
  }
  InterruptsOff(const InterruptsOff&) = delete;
  InterruptsOff& operator=(const InterruptsOff&) = delete;

 private:
  const bool were_on_;
};
