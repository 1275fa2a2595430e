// Replaces kern/arch/x86_64/interrupts.h on the host.
#pragma once

#include "slab_os.h"

inline bool interrupts_enabled() {
  return !host_cpu.interrupts_off;
}

class InterruptsOff {
 public:
  InterruptsOff() : saved_(slab_os_irq_save()) {}
  ~InterruptsOff() { slab_os_irq_restore(saved_); }
  InterruptsOff(const InterruptsOff&) = delete;
  InterruptsOff& operator=(const InterruptsOff&) = delete;

 private:
  const uint64_t saved_;
};
