#ifdef CONFIG_DEBUG_DEVICE

#include "drivers/dev/debug_hang.h"

#include "arch/x86_64/interrupts.h"
#include "arch/x86_64/io.h"
#include "core/log.h"
#include "core/spinlock.h"

namespace {

constinit Spinlock kept{LockRank::kDevice};

}  // namespace

[[gnu::noinline]] void debug_hang() {
  const Guard guard(kept);
  for (;;) cpu_relax();
}

[[gnu::noinline]] void debug_hang_in_log() {
  const InterruptsOff off;
  for (;;) klog("hanging");
}

#endif  // CONFIG_DEBUG_DEVICE
