// The interrupt flag of this CPU.
#pragma once

#include <cstdint>

#include "core/irq_off.h"

inline constexpr uint64_t kRflagsIf = 1 << 9;

IRQ_OFF_INLINE inline bool interrupts_enabled() {
  uint64_t flags;
  asm volatile("pushfq; popq %0" : "=r"(flags)::"memory");
  return flags & kRflagsIf;
}
#ifdef CONFIG_IRQ_OFF_TRACE
IRQ_OFF_INLINE inline void interrupts_disable() {
  const bool were_on = interrupts_enabled();
  asm volatile("cli" ::: "memory");
  if (were_on) irq_off_begin();
}
#else
inline void interrupts_disable() {
  asm volatile("cli" ::: "memory");
}
#endif
IRQ_OFF_INLINE inline void interrupts_enable() {
  irq_off_end();
  asm volatile("sti" ::: "memory");
}

// Turns interrupts off for the life of a scope, and restores them at its end.
class InterruptsOff {
 public:
  IRQ_OFF_INLINE InterruptsOff() : were_on_(interrupts_enabled()) { interrupts_disable(); }
  IRQ_OFF_INLINE ~InterruptsOff() {
    if (were_on_) interrupts_enable();
  }
  InterruptsOff(const InterruptsOff&) = delete;
  InterruptsOff& operator=(const InterruptsOff&) = delete;

 private:
  const bool were_on_;
};

// For the handler of a trap or a probe, which is entered with interrupts off. `flags` are the flags
// that the return from the trap or probe restores. If they turn interrupts on, the class reports
// the life of a scope to irq_off.h as a stretch with interrupts off. Does nothing without
// CONFIG_IRQ_OFF_TRACE.
class EnteredInterruptsOff {
 public:
#ifdef CONFIG_IRQ_OFF_TRACE
  IRQ_OFF_INLINE explicit EnteredInterruptsOff(uint64_t flags) : were_on_(flags & kRflagsIf) {
    if (were_on_) irq_off_begin();
  }
  IRQ_OFF_INLINE ~EnteredInterruptsOff() {
    if (were_on_) irq_off_end();
  }
  EnteredInterruptsOff(const EnteredInterruptsOff&) = delete;
  EnteredInterruptsOff& operator=(const EnteredInterruptsOff&) = delete;

 private:
  const bool were_on_;
#else
  __attribute__((always_inline)) explicit EnteredInterruptsOff(uint64_t) {}
#endif
};
